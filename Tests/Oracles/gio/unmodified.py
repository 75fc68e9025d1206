"""unmodified.py gio|qt: an ordinary program that follows the network by PyGObject or by Qt.

Prints its status at the start and after each change: online or offline, metered or free, and
whether the internet is reachable, as a word of the library.
"""

import sys


def say(event, is_online, is_metered, connectivity):
    words = "online" if is_online else "offline", "metered" if is_metered else "free"
    print(event, *words, connectivity, flush=True)


def follow_gio():
    from gi.repository import Gio, GLib

    monitor = Gio.NetworkMonitor.get_default()

    def say_status(event):
        connectivity = monitor.get_connectivity().value_nick
        say(event, monitor.get_network_available(), monitor.get_network_metered(), connectivity)

    print("monitor", type(monitor).__name__)
    monitor.connect("network-changed", lambda *_: say_status("changed"))
    say_status("start")
    GLib.MainLoop().run()


def follow_qt():
    from PyQt6.QtCore import QCoreApplication
    from PyQt6.QtNetwork import QNetworkInformation

    application = QCoreApplication([])
    if not QNetworkInformation.loadBackendByName("glib"):
        sys.exit("Qt has no glib backend")
    information = QNetworkInformation.instance()

    def say_status(event):
        reachability = information.reachability()
        is_online = reachability != QNetworkInformation.Reachability.Disconnected
        say(event, is_online, information.isMetered(), reachability.name)

    print("monitor", information.backendName())
    information.reachabilityChanged.connect(lambda _: say_status("changed"))
    information.isMeteredChanged.connect(lambda _: say_status("changed"))
    say_status("start")
    application.exec()


{"gio": follow_gio, "qt": follow_qt}[sys.argv[1]]()
