"""The common part of scripted D-Bus services. Lines of JSON control what they answer and send."""

import json
import os

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

PROPERTIES = "org.freedesktop.DBus.Properties"


class BusService:
    """A service without its name. The methods of subclasses are commands. A line names a command as a
    key of its object, and the value is the argument.
    """

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
        """Writes the reply to a call; returns false if there is no such method."""
        raise NotImplementedError

    def tell(self, origin, interface, member, signature, *arguments):
        self.bus.send_message(signal(origin, interface, member, signature, *arguments))
        self.bus.flush()

    def forge_signal(self, name, *described):
        """Another bus client sends the same signal to every client of that name's service."""
        for program in self.asked:
            message = signal(*described)
            message.set_destination(program)
            self.stranger.send_message(message)
        # Waits for a reply, so that the bus delivers it before the service's next signal.
        self.stranger.get_name_owner(name)

    def mute(self, is_mute):
        self.is_mute = is_mute


def signal(origin, interface, member, signature, *arguments):
    message = dbus.lowlevel.SignalMessage(origin, interface, member)
    message.append(*arguments, signature=signature)
    return message


def serve(service, descriptor):
    """Prints `ready`, executes the lines, and prints `done` after each, until the input ends."""
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
