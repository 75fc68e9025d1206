"""What the services that tests play on a bus have in common: what a program asks is answered, what they tell is sent, and a test says
what happens by lines of JSON."""

import json
import os

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

PROPERTIES = "org.freedesktop.DBus.Properties"


class BusService:
    """A service without its name yet. Its methods but these are commands: each takes what the line's object has under its name."""

    def __init__(self, address):
        loop = dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = dbus.bus.BusConnection(address, mainloop=loop)
        self.stranger = dbus.bus.BusConnection(address, mainloop=loop)
        self.asked = set()
        self.is_mute = False
        self.bus.add_message_filter(self.answer)

    def answer(self, bus, message):
        if not isinstance(message, dbus.lowlevel.MethodCallMessage) or message.get_destination() is None:
            return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED
        self.asked.add(message.get_sender())
        if not self.is_mute:
            reply = dbus.lowlevel.MethodReturnMessage(message)
            if not self.write(reply, message):
                reply = dbus.lowlevel.ErrorMessage(message, "org.freedesktop.DBus.Error.UnknownMethod", "no such method")
            bus.send_message(reply)
        return dbus.lowlevel.HANDLER_RESULT_HANDLED

    def write(self, reply, call):
        """Writes the reply to a call; false where there is no such method."""
        raise NotImplementedError

    def tell(self, origin, interface, member, signature, *arguments):
        self.bus.send_message(signal(origin, interface, member, signature, *arguments))
        self.bus.flush()

    def forge_signal(self, name, *described):
        """A stranger tells the same, to whoever has asked the service of that name for anything."""
        for program in self.asked:
            message = signal(*described)
            message.set_destination(program)
            self.stranger.send_message(message)
        # It is delivered before what the service tells next.
        self.stranger.get_name_owner(name)

    def mute(self, is_mute):
        self.is_mute = is_mute


def signal(origin, interface, member, signature, *arguments):
    message = dbus.lowlevel.SignalMessage(origin, interface, member)
    message.append(*arguments, signature=signature)
    return message


def serve(service, descriptor):
    """Prints `ready`, does what the lines say, and prints `done` after each, until there are none."""
    loop = GLib.MainLoop()
    rest = b""

    def read(_source, _condition):
        nonlocal rest
        data = os.read(descriptor, 1 << 16)
        if not data:
            loop.quit()
            return False
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            for command, argument in json.loads(line).items():
                getattr(service, command)(argument)
            print("done", flush=True)
        return True

    GLib.io_add_watch(descriptor, GLib.IO_IN | GLib.IO_HUP, read)
    print("ready", flush=True)
    loop.run()
