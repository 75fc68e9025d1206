"""A scripted polkit.

    polkitd.py ADDRESS ANSWER

It takes polkit's name on the bus at ADDRESS and prints `ready`. Each query is printed as a JSON
object. The word in the file ANSWER decides the answer: yes, no, challenge (authentication is
needed), unknown (there is no such action), nonsense (an answer of another type), or mute.
"""

import json
import sys

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

NAME = "org.freedesktop.PolicyKit1"
QUESTION = (f"{NAME}.Authority", "CheckAuthorization", "(sa{sv})sa{ss}us")
RESULTS = {"yes": (True, False), "no": (False, False), "challenge": (False, True)}


def main():
    address, answer = sys.argv[1:]
    bus = dbus.bus.BusConnection(address, mainloop=dbus.mainloop.glib.DBusGMainLoop(set_as_default=True))

    def take(bus, message):
        if (message.get_interface(), message.get_member(), message.get_signature()) != QUESTION:
            return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED
        (kind, subject), action, details, flags, cancellation = message.get_args_list()
        question = {
            "kind": kind, "subject": {name: int(value) for name, value in subject.items()}, "action": action,
            "details": len(details), "flags": int(flags), "path": message.get_path(),
            "types": {name: value.__class__.__name__ for name, value in subject.items()},
        }
        print(json.dumps(question), flush=True)
        with open(answer) as file:
            word = file.read().strip()
        if word == "mute":
            return dbus.lowlevel.HANDLER_RESULT_HANDLED
        reply = dbus.lowlevel.MethodReturnMessage(message)
        if word == "unknown":
            reply = dbus.lowlevel.ErrorMessage(message, f"{NAME}.Error.Failed", f"Action {action} is not registered")
        elif word == "nonsense":
            reply.append("yes", signature="s")
        else:
            reply.append((*RESULTS[word], {}), signature="(bba{ss})")
        bus.send_message(reply)
        return dbus.lowlevel.HANDLER_RESULT_HANDLED

    bus.add_message_filter(take)
    bus.request_name(NAME)
    print("ready", flush=True)
    GLib.MainLoop().run()


main()
