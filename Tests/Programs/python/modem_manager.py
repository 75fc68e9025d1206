"""A scripted ModemManager.

    modem_manager.py ADDRESS FIFO

It takes the service's name on the bus at ADDRESS, and prints `ready`. Each line of FIFO is a JSON
object with a command; `done` is printed after each:

    {"publish": {PATH: {INTERFACE: {NAME: [SIGNATURE, VALUE]}}}}   adds objects
    {"withdraw": [PATH]}                                           removes objects
    {"set": [PATH, INTERFACE, {NAME: [SIGNATURE, VALUE]}]}         changes properties, with a signal
    {"forge": [PATH, INTERFACE, {NAME: [SIGNATURE, VALUE]}]}       signals as another bus client
    {"bearers": [PATH, COUNT]}                                     a modem with many bearers
    {"idle": [MODEM, BEARER, COUNT]}                               signal and byte counts change
    {"mute": true}                                                 stops answering calls

A forged signal goes to every client that has asked for the objects. Paths begin after
/org/freedesktop/ModemManager1/, interfaces after org.freedesktop.ModemManager1. and a dot.
"""

import os
import sys

import dbus

from bus_service import PROPERTIES, BusService, serve

NAME = "org.freedesktop.ModemManager1"
ROOT = "/org/freedesktop/ModemManager1"
MANAGER = "org.freedesktop.DBus.ObjectManager"

TYPES = {
    "b": dbus.Boolean, "y": dbus.Byte, "n": dbus.Int16, "q": dbus.UInt16, "i": dbus.Int32, "u": dbus.UInt32,
    "x": dbus.Int64, "t": dbus.UInt64, "d": dbus.Double, "s": dbus.String, "o": dbus.ObjectPath,
}


def path(words):
    return f"{ROOT}/{words}"


def value(signature, content):
    if signature == "(ub)":
        return dbus.Struct([dbus.UInt32(content[0]), dbus.Boolean(content[1])], signature="ub")
    if signature == "ao":
        return dbus.Array([dbus.ObjectPath(path(one)) for one in content], signature="o")
    if signature.startswith("a{"):
        return dbus.Dictionary(content, signature=signature[2:-1])
    if signature.startswith("a"):
        return dbus.Array([TYPES[signature[1]](one) for one in content], signature=signature[1:])
    return TYPES[signature](content)


def properties(described):
    return dbus.Dictionary({name: value(*content) for name, content in described.items()}, signature="sv")


class ModemManager(BusService):
    def __init__(self, address):
        super().__init__(address)
        # The properties of each interface, by path.
        self.objects = {}

    def write(self, reply, call):
        method = (call.get_interface(), call.get_member())
        if method == (MANAGER, "GetManagedObjects"):
            # Bearers are not among them, as in ModemManager.
            modems = {key: of for key, of in self.objects.items() if "/Bearer/" not in key}
            reply.append(dbus.Dictionary(modems, signature="oa{sa{sv}}"), signature="a{oa{sa{sv}}}")
        elif method == (PROPERTIES, "GetAll") and call.get_path() in self.objects:
            (interface,) = call.get_args_list()
            reply.append(self.objects[call.get_path()].get(interface, {}), signature="a{sv}")
        else:
            return False
        return True

    def publish(self, objects):
        for words, interfaces in objects.items():
            described = dbus.Dictionary(
                {f"{NAME}.{interface}": properties(of) for interface, of in interfaces.items()}, signature="sa{sv}")
            self.objects[path(words)] = described
            if "Bearer/" not in words:
                self.tell(ROOT, MANAGER, "InterfacesAdded", "oa{sa{sv}}", path(words), described)

    def withdraw(self, paths):
        for words in paths:
            interfaces = self.objects.pop(path(words))
            if "Bearer/" not in words:
                names = dbus.Array(list(interfaces), signature="s")
                self.tell(ROOT, MANAGER, "InterfacesRemoved", "oas", path(words), names)

    def set(self, arguments):
        words, interface, described = arguments
        self.objects[path(words)][f"{NAME}.{interface}"].update(properties(described))
        self.tell(path(words), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(interface, described))

    def forge(self, arguments):
        words, interface, described = arguments
        self.forge_signal(
            NAME, path(words), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(interface, described))

    def change(self, interface, described):
        return f"{NAME}.{interface}", properties(described), dbus.Array([], signature="s")

    def bearers(self, arguments):
        words, count = arguments
        paths = [f"Bearer/{number}" for number in range(count)]
        self.publish({words: {"Modem": {"Bearers": ["ao", paths]}}})

    def idle(self, arguments):
        modem, bearer, count = arguments
        for number in range(1, count + 1):
            # Like a bearer that is half a minute older (BEARER_STATS_UPDATE_TIMEOUT).
            stats = {"duration": dbus.UInt32(30 * number), "rx-bytes": dbus.UInt64(1000 * number), "attempts": dbus.UInt32(1)}
            self.set([bearer, "Bearer", {"Stats": ["a{sv}", stats]}])
            self.set([modem, "Modem", {"SignalQuality": ["(ub)", [number % 101, True]]}])


address, commands = sys.argv[1:]
service = ModemManager(address)
service.bus.request_name(NAME)
# Also open for writing, so that it never ends.
serve(service, os.open(commands, os.O_RDWR | os.O_NONBLOCK))
