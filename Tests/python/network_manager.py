"""A NetworkManager that says of its devices what a test has it say.

    network_manager.py ADDRESS

It takes the service's name on the bus at ADDRESS, and prints `ready`. Each line of standard input is an object of JSON that changes what
there is, after which it prints `done`:

    {"device": [NUMBER, {NAME: VALUE}]}   this one is there from now on, with these properties (Metered, Interface, IpInterface)
    {"set": [NUMBER, {NAME: VALUE}]}      and tells of it
    {"forge": [NUMBER, {NAME: VALUE}]}    a stranger tells of it
    {"remove": NUMBER}
    {"mute": true}                        no call is answered from now on
"""

import json
import os
import sys

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

NAME = "org.freedesktop.NetworkManager"
ROOT = "/org/freedesktop/NetworkManager"
DEVICE = f"{NAME}.Device"
PROPERTIES = "org.freedesktop.DBus.Properties"


def path(number):
    return f"{ROOT}/Devices/{number}"


def properties(described):
    types = {int: dbus.UInt32, str: dbus.String}
    return dbus.Dictionary({name: types[type(value)](value) for name, value in described.items()}, signature="sv")


class NetworkManager:
    def __init__(self, address):
        loop = dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = dbus.bus.BusConnection(address, mainloop=loop)
        self.stranger = dbus.bus.BusConnection(address, mainloop=loop)
        self.devices = {}
        self.asked = set()
        self.is_mute = False
        self.bus.add_message_filter(self.answer)

    def answer(self, bus, message):
        if not isinstance(message, dbus.lowlevel.MethodCallMessage) or message.get_destination() is None:
            return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED
        self.asked.add(message.get_sender())
        if self.is_mute:
            return dbus.lowlevel.HANDLER_RESULT_HANDLED
        reply = dbus.lowlevel.MethodReturnMessage(message)
        call = (message.get_path(), message.get_interface(), message.get_member())
        if call == (ROOT, NAME, "GetDevices"):
            reply.append(dbus.Array([dbus.ObjectPath(path(number)) for number in self.devices], signature="o"))
        elif call[1:] == (PROPERTIES, "GetAll") and message.get_args_list() == [DEVICE]:
            number = int(message.get_path().rsplit("/", 1)[1])
            # Among much else, as in NetworkManager.
            all_of_it = {"State": 100, "Udi": "/sys/devices/virtual/net/x"} | self.devices[number]
            reply.append(properties(all_of_it), signature="a{sv}")
        else:
            reply = dbus.lowlevel.ErrorMessage(message, "org.freedesktop.DBus.Error.AccessDenied", "no")
        bus.send_message(reply)
        return dbus.lowlevel.HANDLER_RESULT_HANDLED

    def start(self):
        self.bus.request_name(NAME)

    def device(self, arguments):
        number, described = arguments
        self.devices[number] = described
        self.tell(self.bus, ROOT, NAME, "DeviceAdded", "o", dbus.ObjectPath(path(number)))

    def set(self, arguments):
        number, described = arguments
        self.devices[number] |= described
        self.tell(self.bus, path(number), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(described))

    def forge(self, arguments):
        number, described = arguments
        for name in self.asked:
            self.tell(
                self.stranger, path(number), PROPERTIES, "PropertiesChanged", "sa{sv}as", *self.change(described), to=name)
        # It is delivered before what the service tells next.
        self.stranger.get_name_owner(NAME)

    def remove(self, number):
        del self.devices[number]
        self.tell(self.bus, ROOT, NAME, "DeviceRemoved", "o", dbus.ObjectPath(path(number)))

    def mute(self, is_mute):
        self.is_mute = is_mute

    def change(self, described):
        return DEVICE, properties(described), dbus.Array([], signature="s")

    def tell(self, bus, origin, interface, member, signature, *arguments, to=None):
        message = dbus.lowlevel.SignalMessage(origin, interface, member)
        message.append(*arguments, signature=signature)
        if to:
            message.set_destination(to)
        bus.send_message(message)
        bus.flush()


def main():
    service = NetworkManager(sys.argv[1])
    loop = GLib.MainLoop()
    rest = b""

    def read(_source, _condition):
        nonlocal rest
        data = os.read(0, 1 << 16)
        if not data:
            loop.quit()
            return False
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            for command, argument in json.loads(line).items():
                getattr(service, command)(argument)
            print("done", flush=True)
        return True

    GLib.io_add_watch(0, GLib.IO_IN | GLib.IO_HUP, read)
    service.start()
    print("ready", flush=True)
    loop.run()


main()
