"""A scripted NetworkManager.

    network_manager.py ADDRESS

It takes the service's name on the bus at ADDRESS, and prints `ready`. Each line of standard input
is a JSON object with a command; `done` is printed after each:

    {"device": [NUMBER, {NAME: VALUE}]}   adds a device (Metered, Interface, IpInterface)
    {"set": [NUMBER, {NAME: VALUE}]}      changes it, with a signal
    {"check": BOOLEAN}                    begins or stops to check connectivity
    {"forge": [NUMBER, {NAME: VALUE}]}    signals as another bus client
    {"remove": NUMBER}                    removes it
    {"mute": true}                        stops answering calls
"""

import sys

import dbus

from bus_service import PROPERTIES, BusService, serve

NAME = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
DEVICE = f"{NAME}.Device"


def path(number):
    return f"{ROOT}/Devices/{number}"


def properties(described):
    types = {int: dbus.UInt32, str: dbus.String}
    return dbus.Dictionary({name: types[type(value)](value) for name, value in described.items()}, signature="sv")


class NetworkManager(BusService):
    def __init__(self, address):
        super().__init__(address)
        self.devices = {}
        self.checks = False

    def write(self, reply, call):
        if (call.get_path(), call.get_interface(), call.get_member()) == (ROOT, NAME, "GetDevices"):
            reply.append(dbus.Array([dbus.ObjectPath(path(number)) for number in self.devices], signature="o"))
        elif (call.get_interface(), call.get_member(), call.get_args_list()) == (PROPERTIES, "GetAll", [NAME]):
            reply.append(self.manager(), signature="a{sv}")
        elif (call.get_interface(), call.get_member(), call.get_args_list()) == (PROPERTIES, "GetAll", [DEVICE]):
            number = int(call.get_path().rsplit("/", 1)[1])
            # Among many other properties, as in NetworkManager.
            all_of_it = {"State": 100, "Udi": "/sys/devices/virtual/net/x"} | self.devices[number]
            reply.append(properties(all_of_it), signature="a{sv}")
        else:
            return False
        return True

    def manager(self):
        return dbus.Dictionary({"ConnectivityCheckEnabled": dbus.Boolean(self.checks)}, signature="sv")

    def check(self, checks):
        self.checks = checks
        self.tell(ROOT, PROPERTIES, "PropertiesChanged", "sa{sv}as", NAME, self.manager(), dbus.Array([], signature="s"))

    def device(self, arguments):
        number, described = arguments
        self.devices[number] = described
        self.tell(ROOT, NAME, "DeviceAdded", "o", dbus.ObjectPath(path(number)))

    def set(self, arguments):
        number, described = arguments
        self.devices[number] |= described
        self.tell(path(number), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(described))

    def forge(self, arguments):
        number, described = arguments
        self.forge_signal(NAME, path(number), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(described))

    def remove(self, number):
        del self.devices[number]
        self.tell(ROOT, NAME, "DeviceRemoved", "o", dbus.ObjectPath(path(number)))

    def change(self, described):
        return DEVICE, properties(described), dbus.Array([], signature="s")


service = NetworkManager(sys.argv[1])
service.bus.request_name(NAME)
serve(service, sys.stdin.fileno())
