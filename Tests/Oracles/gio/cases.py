"""cases.py MODULE CONND small|full [CASE...]: see ./run."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import bed
import servers
from bed import PEER, SOCKET, Program, check, eventually

MODULE, CONND, SIZE, *NAMES = sys.argv[1:]
IS_FULL = SIZE == "full"
CONFIGURATION = "/run/gio/etc/connd/gio.conf"
NETWORK_MANAGER = "/run/NetworkManager"
OURS, GLIBS = "ConndNetworkMonitor", "GNetworkMonitorNetlink"
LEAKS = {"G_SLICE": "always-malloc", "ASAN_OPTIONS": "abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def watcher(*arguments, kind="sanitized", socket=SOCKET, wrapper=(), **variables):
    """The test program with the module, built with sanitizers or without."""
    modules = "/run/gio/sanitized" if kind == "sanitized" else MODULE
    return Program([*wrapper, f"/run/gio/{kind}/watcher", *arguments], GIO_EXTRA_MODULES=modules,
                   CONND_SOCKET=socket, **LEAKS | variables)


def begin(program):
    """Returns the type of the program's monitor, and its first status."""
    kind = program.await_line("monitor ").split()[1]
    return kind, program.await_line("start ").removeprefix("start ")


def began(status, *arguments, **options):
    """A watcher that follows connd, and had this status at first, unless that is None. If the machine is so busy
    that connd does not answer in time, the watcher is started again.
    """
    end = time.monotonic() + bed.DEADLINE
    while (found := begin(program := watcher(*arguments, **options)))[0] != OURS and time.monotonic() < end:
        program.end()
    check(found == (OURS, status or found[1]), "the monitor began as", program.seen)
    return program


# With connd


def four_cases(connd):
    """The module says in each case what curl finds. GLib's own monitor is printed beside it."""
    ours = began("online free 4", kind="plain")
    glibs = watcher(kind="plain", GIO_USE_NETWORK_MONITOR="netlink")
    check(begin(glibs)[0] == GLIBS, glibs.seen)
    print(f"  {'case':28}{'curl':9}{'connd':21}GLib")

    def compare(case, expected):
        reaches = bed.reaches_peer()
        said = ours.state()
        print(f"  {case:28}{'online' if reaches else 'offline':9}{said:21}{glibs.state()}")
        check(said == expected and said.startswith("online") == reaches, case, "expected", expected)
        check(ours.reach(PEER).startswith("yes") == reaches, case, ours.seen)

    compare("normal", "online free 4")
    bed.pull("eth0")
    ours.await_line("changed offline free 1")
    compare("cable pulled", "offline free 1")
    bed.ip("route del " + bed.default("eth0"))
    ours.await_line("changed online free 4")
    compare("its route removed, Wi-Fi", "online free 4")
    bed.pull("wlan0")
    bed.ip("route del " + bed.default("wlan0"))
    ours.await_line("changed online metered 4")
    compare("Wi-Fi lost, modem", "online metered 4")
    bed.ip("route replace " + bed.default("wlan0"))
    bed.pull("wwan0")
    ours.await_line("changed offline free 1")
    compare("all carriers lost", "offline free 1")
    for link in bed.LINKS:
        bed.plug(link)
    ours.await_line("changed online free 4")
    compare("normal again", "online free 4")
    ours.end(), glibs.end()


def reach(connd):
    """can_reach, with and without waiting, follows the kernel's path to each address."""
    program = began("online free 4")
    for command in ["reach", "later"]:
        for host, answer in {
                PEER: "yes", "127.0.0.1": "yes", "::1": "yes", "192.0.2.77": "yes", "localhost": "yes",
                "2001:db8::1": "Host unreachable", "fe80::1%eth0": "yes"}.items():
            check(program.reach(host, command) == answer, host, program.seen[-1], "instead of", answer)
        check(program.reach("nowhere.invalid", command) not in ["yes", "Host unreachable"], program.seen[-1])
    # More queries at once than calls, and more bytes in all than connd first allows.
    host = "2001:db8:1111:2222:3333:4444:5555:6666"
    for _ in range(3):
        for _ in range(500):
            program.say(f"later {host}")
        for _ in range(500):
            check(program.await_line("reach ") == f"reach {host} Host unreachable", program.seen[-1])
    # A default route by a link-local gateway, as router advertisements make it.
    bed.ip("address add 2001:db8:1::2/64 dev eth0 nodad", "route add ::/0 via fe80::1 dev eth0")
    check(program.reach("2001:db8::1") == "yes", program.seen[-1])
    bed.ip("route del ::/0 via fe80::1 dev eth0")
    check(program.reach("2001:db8::1") == "Host unreachable", program.seen[-1])
    # The route to one host leads to a cable without carrier, and all other traffic leaves by Wi-Fi.
    bed.ip("route add 203.0.113.77 via 192.0.2.1 dev eth0", "route del " + bed.default("eth0"))
    bed.pull("eth0")
    for host, answer in {
            "203.0.113.77": "Host unreachable", PEER: "yes",
            "fe80::1%eth0": "Host unreachable", "fe80::1%wlan0": "yes"}.items():
        check(program.reach(host) == answer, host, program.seen[-1], "instead of", answer)
    bed.ip("route del 203.0.113.77")
    bed.plug("eth0")
    program.end()


def thread(connd):
    """Signals arrive in the main context of the thread that made the monitor; the program ends if not."""
    program = began("online free 4", "--thread")
    bed.pull("eth0")
    program.await_line("changed offline")
    check(program.reach(PEER, "later") != "yes", program.seen)
    bed.plug("eth0")
    program.await_line("changed online")
    program.end()


def cycle(connd):
    """Monitors that are freed leave no thread, descriptor or memory behind."""
    program = watcher("--cycle")
    check(program.await_line("cycles ") == "cycles 50, threads 0, descriptors 0", program.seen)
    program.end()


def crowd(connd):
    """Many processes have a thread and a connection each, and hear of a change."""
    count = 400 if IS_FULL else 100
    programs = [watcher(kind="plain") for _ in range(count)]
    for number, program in enumerate(programs):
        if begin(program) != (OURS, "online free 4"):
            program.end()
            programs[number] = began("online free 4", kind="plain")
    for program in programs:
        program.say(f"later {PEER}")
    for program in programs:
        check(program.await_line("reach ").endswith("yes"), program.seen)
        tasks = f"/proc/{program.process.pid}/task"
        names = [open(f"{tasks}/{task}/comm").read().strip() for task in os.listdir(tasks)]
        check(names.count("connd-gio") == 1, names)
    check(eventually(lambda: connd.connections() == count), connd.connections(), "connections")
    bed.pull("eth0")
    for program in programs:
        program.await_line("changed offline")
    bed.plug("eth0")
    for program in programs:
        program.await_line("changed online")
        program.end()


def restart(connd):
    """While connd is away the last state holds. Then the module hears what has changed, if anything."""
    program = began("online free 4")
    connd.stop()
    connd.start()
    # Only connd knows that.
    check(eventually(lambda: program.reach("2001:db8::1") == "Host unreachable"), program.seen)
    check(program.state() == "online free 4" and not any(line.startswith("changed") for line in program.seen),
          program.seen)
    connd.stop()
    check(program.reach(PEER) == "yes" and program.state() == "online free 4", program.seen)
    bed.pull("eth0")
    check(program.state() == "online free 4", program.seen)
    connd.start()
    program.await_line("changed offline free 1")
    check(program.reach(PEER) == "Network unreachable", program.seen)
    connd.process.kill()
    connd.process.wait()
    bed.plug("eth0")
    check(program.state() == "offline free 1" and program.reach(PEER) == "Network unreachable", program.seen)
    connd.start()
    program.await_line("changed online free 4")
    program.end()


def suspended(connd):
    """A stopped connd delays a program by 200 ms at most; GLib's own monitor takes over."""
    program = began("online free 4")
    connd.suspend()
    check(program.reach(PEER) == "yes" and program.reach(PEER, "later") == "yes", program.seen)
    other = watcher(kind="plain")
    check(begin(other)[0] == GLIBS, other.seen)
    print(f"  get_default() took {bed.figures(other)[0] / 1000:.0f} ms while connd was stopped")
    other.end()
    bed.pull("eth0")
    check(program.state() == "online free 4", program.seen)
    connd.resume()
    program.await_line("changed offline free 1")
    bed.plug("eth0")
    program.await_line("changed online free 4")
    program.end()


def routes(connd):
    """The module does not read the routing table, however large it is."""
    count = 300_000 if IS_FULL else 50_000
    bed.ip(*(f"route add 20.{n >> 16}.{n >> 8 & 255}.{n & 255} via 192.0.2.1" for n in range(count)))
    program = began("online free 4", kind="plain")
    microseconds, memory = bed.figures(program)
    print(f"  {count:,} routes: the module took {microseconds / 1000:.1f} ms and {memory} KiB")
    check(memory < 2048, program.seen)
    program.end()
    if IS_FULL:
        glibs = watcher(kind="plain", GIO_USE_NETWORK_MONITOR="netlink")
        begin(glibs)
        microseconds, memory = bed.figures(glibs)
        print(f"  GLib's own monitor took {microseconds / 1000:.1f} ms and {memory} KiB")
        glibs.end()
    bed.ip("route flush root 20.0.0.0/8")


def foreign(connd):
    """A connd of another network namespace, or of another user, is not believed."""
    with servers.Server(servers.sends(servers.VALID)):
        began("online free 4", socket=servers.SOCKET).end()
    with servers.Server(servers.sends(servers.VALID), user=65534):
        check(begin(other := watcher(socket=servers.SOCKET))[0] == GLIBS, other.seen)
        other.end()
        # That user's own programs believe it.
        prefix = ("setpriv", "--reuid=65534", "--clear-groups")
        began("online free 4", socket=servers.SOCKET, wrapper=prefix).end()
    outside = watcher(wrapper=("ip", "netns", "exec", "world"))
    check(begin(outside)[0] == GLIBS, outside.seen)
    outside.end()
    # Without a socket in the environment, the owner of the system's directory is trusted, too.
    connd.stop()
    for owner in [65534, 0]:
        os.chown(os.path.dirname(SOCKET), owner, owner)
        with servers.Server(servers.sends(servers.VALID), user=65534, path=SOCKET):
            if owner:
                began("online free 4", socket="").end()
            else:
                check(begin(program := watcher(socket=""))[0] == GLIBS, program.seen)
                program.end()
        with servers.Server(servers.sends(servers.VALID), user=65534):
            check(begin(program := watcher(socket=servers.SOCKET))[0] == GLIBS, program.seen)
            program.end()
    with servers.Server(servers.sends(servers.VALID), user=65534, path="/run/gio/connd.sock"):
        os.remove(SOCKET)
        began("online free 4", socket="", wrapper=prefix, XDG_RUNTIME_DIR="/run/gio").end()
    connd.start()


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


# Without connd, or with something else in its place


def absent(connd):
    connd.stop()
    for kind in ["plain", "sanitized"]:
        program = watcher(kind=kind)
        check(begin(program)[0] == GLIBS, program.seen)
        program.end()
    connd.start()


def hostile(connd):
    """A server that is wrong has no effect but that its status, if any, holds."""
    for name, serve in servers.BEFORE_A_STATUS.items():
        with servers.Server(serve):
            program = watcher(socket=servers.SOCKET)
            check(begin(program)[0] == GLIBS, name, program.seen)
            program.end()
    for name, serve in servers.AFTER_A_STATUS.items():
        with servers.Server(serve) as server:
            program = began("online free 4", socket=servers.SOCKET)
            server.await_turn()
            check(program.reach(PEER) == "yes", name, program.seen)
            check(program.state() == "online free 4", name, program.seen)
            program.end()
    for serve, status in servers.VALID_STATUS.values():
        with servers.Server(serve):
            began(status, socket=servers.SOCKET).end()
    with servers.Server(servers.minds_the_window):
        # The second status may arrive before the program prints the first one.
        program = began(None, socket=servers.SOCKET)
        if program.state() != "offline free 1":
            program.await_line("changed offline free 1")
        program.end()
    count = "200000" if IS_FULL else "20000"
    done = subprocess.run(["/run/gio/sanitized/bytes", count], capture_output=True, text=True)
    check(done.returncode == 0, done.stdout, done.stderr)
    print(" ", done.stdout.strip())


def memcheck(connd):
    """Valgrind finds no error and no lost memory, also after a restart."""
    # Threads that run at the end possibly lose their stacks' memory.
    options = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full",
               "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite")
    program = began("online free 4", kind="plain", wrapper=options)
    check(program.reach(PEER) == "yes" and program.reach(PEER, "later") == "yes", program.seen)
    connd.stop()
    check(program.reach("2001:db8::1") == "yes", program.seen)
    bed.pull("eth0")
    connd.start()
    program.await_line("changed offline")
    bed.plug("eth0")
    program.await_line("changed online")
    program.end()
    cycles = watcher("--cycle", kind="plain", wrapper=options)
    cycles.await_line("cycles ")
    cycles.end()


# Unmodified programs


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


CASES = [four_cases, reach, thread, cycle, crowd, restart, suspended, routes, foreign, choice,
         network_manager, absent, hostile, memcheck, python, qt, portal]


def main():
    bed.make()
    connd = bed.Connd(CONND)
    connd.start()
    for case in [case for case in CASES if case.__name__ in NAMES or not NAMES]:
        start = time.monotonic()
        print(case.__name__, flush=True)
        case(connd)
        print(f"  passed after {time.monotonic() - start:.1f} s", flush=True)
    connd.stop()


main()
