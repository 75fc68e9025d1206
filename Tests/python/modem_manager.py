"""A ModemManager that says what a test has it say.

    modem_manager.py ADDRESS FIFO

It takes the service's name on the bus at ADDRESS, and prints `ready`. Each line of FIFO is an object of JSON that changes what there
is, after which it prints `done`:

    {"publish": {PATH: {INTERFACE: {NAME: [SIGNATURE, VALUE]}}}}   objects that are there from now on
    {"withdraw": [PATH]}
    {"set": [PATH, INTERFACE, {NAME: [SIGNATURE, VALUE]}]}          and tells of it
    {"forge": [PATH, INTERFACE, {NAME: [SIGNATURE, VALUE]}]}        a stranger tells of it, to whoever has asked for the objects
    {"bearers": [PATH, COUNT]}                                      a modem with so many
    {"mute": true}                                                  no call is answered from now on

Paths begin behind /org/freedesktop/ModemManager1/, interfaces behind org.freedesktop.ModemManager1. and a dot.
"""

import json
import os
import sys

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

NAME = "org.freedesktop.ModemManager1"
ROOT = "/org/freedesktop/ModemManager1"
PROPERTIES = "org.freedesktop.DBus.Properties"
MANAGER = "org.freedesktop.DBus.ObjectManager"

TYPES = {
    "b": dbus.Boolean, "y": dbus.Byte, "n": dbus.Int16, "q": dbus.UInt16, "i": dbus.Int32, "u": dbus.UInt32,
    "x": dbus.Int64, "t": dbus.UInt64, "d": dbus.Double, "s": dbus.String, "o": dbus.ObjectPath,
}


def path(words):
    return f"{ROOT}/{words}"


def value(signature, content):
    if signature == "ao":
        return dbus.Array([dbus.ObjectPath(path(one)) for one in content], signature="o")
    if signature.startswith("a{"):
        return dbus.Dictionary(content, signature=signature[2:-1])
    if signature.startswith("a"):
        return dbus.Array([TYPES[signature[1]](one) for one in content], signature=signature[1:])
    return TYPES[signature](content)


def properties(described):
    return dbus.Dictionary({name: value(*content) for name, content in described.items()}, signature="sv")


class ModemManager:
    def __init__(self, address):
        loop = dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = dbus.bus.BusConnection(address, mainloop=loop)
        self.stranger = dbus.bus.BusConnection(address, mainloop=loop)
        # By path, their interfaces' properties.
        self.objects = {}
        self.asked = set()
        self.is_mute = False
        self.bus.add_message_filter(self.answer)
        self.bus.request_name(NAME)

    def answer(self, bus, message):
        if not isinstance(message, dbus.lowlevel.MethodCallMessage) or message.get_destination() is None:
            return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED
        self.asked.add(message.get_sender())
        if self.is_mute:
            return dbus.lowlevel.HANDLER_RESULT_HANDLED
        reply = dbus.lowlevel.MethodReturnMessage(message)
        call = (message.get_interface(), message.get_member())
        if call == (MANAGER, "GetManagedObjects"):
            # Bearers are not among them, as in ModemManager.
            modems = {key: of for key, of in self.objects.items() if "/Bearer/" not in key}
            reply.append(dbus.Dictionary(modems, signature="oa{sa{sv}}"), signature="a{oa{sa{sv}}}")
        elif call == (PROPERTIES, "GetAll") and message.get_path() in self.objects:
            (interface,) = message.get_args_list()
            reply.append(self.objects[message.get_path()].get(interface, {}), signature="a{sv}")
        else:
            reply = dbus.lowlevel.ErrorMessage(message, "org.freedesktop.DBus.Error.UnknownMethod", "no such method")
        bus.send_message(reply)
        return dbus.lowlevel.HANDLER_RESULT_HANDLED

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
        for name in self.asked:
            message = dbus.lowlevel.SignalMessage(path(words), PROPERTIES, "PropertiesChanged")
            message.append(*self.change(interface, described), signature="sa{sv}as")
            message.set_destination(name)
            self.stranger.send_message(message)
        # It is delivered before what the service tells next.
        self.stranger.get_name_owner(NAME)

    def change(self, interface, described):
        return f"{NAME}.{interface}", properties(described), dbus.Array([], signature="s")

    def bearers(self, arguments):
        words, count = arguments
        paths = [f"Bearer/{number}" for number in range(count)]
        self.publish({words: {"Modem": {"Bearers": ["ao", paths]}}})

    def mute(self, is_mute):
        self.is_mute = is_mute

    def tell(self, origin, interface, member, signature, *arguments):
        message = dbus.lowlevel.SignalMessage(origin, interface, member)
        message.append(*arguments, signature=signature)
        self.bus.send_message(message)
        self.bus.flush()


def main():
    address, name = sys.argv[1:]
    service = ModemManager(address)
    loop = GLib.MainLoop()
    # Open for writing as well: it never ends.
    commands = os.fdopen(os.open(name, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0)
    rest = b""

    def read(_source, _condition):
        nonlocal rest
        *lines, rest = (rest + (commands.read(1 << 16) or b"")).split(b"\n")
        for line in lines:
            for command, argument in json.loads(line).items():
                getattr(service, command)(argument)
            print("done", flush=True)
        return True

    GLib.io_add_watch(commands, GLib.IO_IN, read)
    print("ready", flush=True)
    loop.run()


main()
