"""The choice between GLib's monitors, and unmodified programs."""

import contextlib
import os
import shutil
import subprocess
import time

import bed
from bed import PEER, SOCKET, Program, check, eventually
from watching import CONFIGURATION, GLIBS, MODULE, NETWORK_MANAGER, OURS, began, begin, watcher


def choice(connd):
    """The priority is 25 with NetworkManager, and 35 without, or that of the configuration. A wrong line is
    reported, and has no effect.
    """
    check((program := watcher("--priority")).await_line("priority ") == "priority 35", program.seen)
    os.mkdir(NETWORK_MANAGER)
    os.makedirs(os.path.dirname(CONFIGURATION), exist_ok=True)
    for text, priority, error in [
            ("", 25, ""), (f"#{500 * ' x'}\n\npriority=35\n", 35, ""), (" priority = 10 \r\n", 10, ""),
            ("priority=no\n", 25, ":1: "), ("\npriority=0", 25, ":2: "), ("x=5\npriority=26", 26, ":1: "),
            ("priority\n", 25, ":1: "), ("priority=99999999999999999999\n", 25, ":1: "),
            ("x" * 500, 25, ":1: "), ("\0" * 500, 25, "")]:
        with open(CONFIGURATION, "w") as file:
            file.write(text)
        program = watcher("--priority")
        check(program.await_line("priority ") == f"priority {priority}", repr(text), program.seen)
        program.process.wait(bed.DEADLINE), program.threads[1].join()
        check(error in program.errors and (error or not program.errors), repr(text), program.errors)
    with open(CONFIGURATION, "w") as file:
        file.write("priority=10\n")
    check(begin(lower := watcher())[0] == GLIBS, lower.seen)
    lower.end()
    os.remove(CONFIGURATION)
    os.rmdir(NETWORK_MANAGER)
    variable = ["pkg-config", "--variable=gio_querymodules", "gio-2.0"]
    query = subprocess.run(variable, capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(MODULE, "/run/gio/modules")
    subprocess.run([query, "/run/gio/modules"], check=True)
    with open("/run/gio/modules/giomodule.cache") as file:
        check("libgioconnd.so: gio-network-monitor" in file.read(), "gio-querymodules does not list the module")


def network_manager(connd):
    """NetworkManager has precedence while it runs, unless the configuration says otherwise."""
    os.mkdir(NETWORK_MANAGER)
    os.makedirs(os.path.dirname(CONFIGURATION), exist_ok=True)
    bus = Program(["dbus-daemon", "--session", "--nofork", "--print-address=1"])
    address = bus.await_line("unix:")
    service = Program(["/usr/bin/python3", "Tests/Oracles/gio/network_manager.py"], DBUS_SYSTEM_BUS_ADDRESS=address)
    service.await_line("ready")
    program = watcher(DBUS_SYSTEM_BUS_ADDRESS=address)
    check(begin(program) == ("GNetworkMonitorNM", "online metered 2"), program.seen)
    program.end()
    with open(CONFIGURATION, "w") as file:
        file.write("priority=35\n")
    began("online free 4", DBUS_SYSTEM_BUS_ADDRESS=address).end()
    os.remove(CONFIGURATION)
    for server in [service, bus]:
        server.process.kill()
        server.process.wait()
    # Its directory is still there, and its name is not.
    began("online free 4", DBUS_SYSTEM_BUS_ADDRESS=address).end()
    os.rmdir(NETWORK_MANAGER)


def python(connd):
    with following("gio", connd, OURS, "full") as program:
        bed.pull("eth0")
        program.await_line("changed offline free local")
        bed.ip("route del " + bed.default("eth0"), "route del " + bed.default("wlan0"))
        program.await_line("changed online metered full")
        for link in bed.LINKS:
            bed.plug(link)
        program.await_line("changed online free full")


def qt(connd):
    # The glib backend of Qt 6.4 does not read network-metered.
    with following("qt", connd, "glib", "Online") as program:
        bed.pull("eth0")
        program.await_line("changed offline free Disconnected")
        bed.ip("route del " + bed.default("eth0"))
        program.await_line("changed online free Online")
        bed.plug("eth0")


@contextlib.contextmanager
def following(library, connd, monitor, online):
    """An unmodified program that follows the network by a library."""
    with connected(["/usr/bin/python3", "Tests/Oracles/gio/unmodified.py", library], connd, "start ") as program:
        check(f"monitor {monitor}" in program.seen, program.seen)
        check(program.seen[-1] == f"start online free {online}", program.seen)
        yield program


@contextlib.contextmanager
def connected(command, connd, ready):
    """A program that has a connection to connd when it prints this line. Started again as in `began`."""
    others, end = connd.connections(), time.monotonic() + bed.DEADLINE
    while True:
        program = Program(command, GIO_EXTRA_MODULES=MODULE, CONND_SOCKET=SOCKET, XDG_RUNTIME_DIR="/run/gio")
        try:
            program.await_line(ready)
            if connd.connections() > others:
                yield program
                return
        finally:
            program.process.kill()
            program.process.wait()
        check(time.monotonic() < end, program.command, "does not connect to connd")


def portal(connd):
    """The portal, by which sandboxed programs ask, answers as connd does."""
    script = """
portal() { gdbus call --session --timeout 10 --dest org.freedesktop.portal.Desktop \\
    --object-path /org/freedesktop/portal/desktop --method "org.freedesktop.portal.NetworkMonitor.$@"; }
trap 'kill %1' EXIT
/usr/libexec/xdg-desktop-portal 2>/dev/null &
gdbus wait --session --timeout 20 org.freedesktop.portal.Desktop
portal GetStatus && echo ready
while read -r line; do echo "answer $(eval "portal $line" 2>&1)"; done
"""
    with connected(["dbus-run-session", "--", "bash", "-c", script], connd, "ready") as program:
        def says(expected, reachable):
            # The answer of a bus call, which no event announces.
            check(eventually(lambda: expected in program.ask("GetStatus", "answer ")), expected, program.seen[-1])
            answer = program.ask(f"CanReach {PEER} 80", "answer ")
            check(answer == f"answer ({reachable},)", answer)

        says("'available': <true>, 'metered': <false>, 'connectivity': <uint32 4>", "true")
        bed.pull("eth0")
        says("'available': <false>, 'metered': <false>, 'connectivity': <uint32 1>", "false")
        bed.ip("route del " + bed.default("eth0"), "route del " + bed.default("wlan0"))
        says("'available': <true>, 'metered': <true>, 'connectivity': <uint32 4>", "true")
        for link in bed.LINKS:
            bed.plug(link)
        says("'available': <true>, 'metered': <false>, 'connectivity': <uint32 4>", "true")
