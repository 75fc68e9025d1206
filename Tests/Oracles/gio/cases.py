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
CONFIGURATION = "/mnt/etc/connd/gio.conf"
OURS, GLIBS = "ConndNetworkMonitor", "GNetworkMonitorNetlink"
LEAKS = {"G_SLICE": "always-malloc", "ASAN_OPTIONS": "abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


def watcher(*arguments, kind="sanitized", socket=SOCKET, wrapper=(), **variables):
    """The test program with the module, built with sanitizers or without."""
    modules = "/mnt/sanitized" if kind == "sanitized" else MODULE
    return Program([*wrapper, f"/mnt/{kind}/watcher", *arguments], GIO_EXTRA_MODULES=modules,
                   CONND_SOCKET=socket, **LEAKS | variables)


def begin(program):
    """Returns the type of the program's monitor, and its first status."""
    kind = program.await_line("monitor ").split()[1]
    return kind, program.await_line("start ").removeprefix("start ")


def began(program, status):
    check(begin(program) == (OURS, status), "the monitor began as", program.seen)
    return program


# With connd


def four_cases(connd):
    """The module says in each case what curl finds. GLib's own monitor is printed beside it."""
    ours = began(watcher(kind="plain"), "online free 4")
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
    program = began(watcher(), "online free 4")
    for command in ["reach", "later"]:
        for host, answer in {
                PEER: "yes", "127.0.0.1": "yes", "::1": "yes", "192.0.2.77": "yes", "localhost": "yes",
                "2001:db8::1": "Host unreachable", "fe80::1%eth0": "yes"}.items():
            check(program.reach(host, command) == answer, host, program.seen[-1], "instead of", answer)
        check(program.reach("nowhere.invalid", command) not in ["yes", "Host unreachable"], program.seen[-1])
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
    program = began(watcher("--thread"), "online free 4")
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
    others = connd.connections()
    programs = [watcher(kind="plain") for _ in range(count)]
    for program in programs:
        began(program, "online free 4")
    for program in programs:
        program.say(f"later {PEER}")
    for program in programs:
        check(program.await_line("reach ").endswith("yes"), program.seen)
        tasks = f"/proc/{program.process.pid}/task"
        names = [open(f"{tasks}/{task}/comm").read().strip() for task in os.listdir(tasks)]
        check(names.count("connd-gio") == 1, names)
    check(connd.connections() - others == count, connd.connections(), "connections")
    bed.pull("eth0")
    for program in programs:
        program.await_line("changed offline")
    bed.plug("eth0")
    for program in programs:
        program.await_line("changed online")
        program.end()


def restart(connd):
    """While connd is away the last state holds. Then the module hears what has changed, if anything."""
    program = began(watcher(), "online free 4")
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
    program = began(watcher(), "online free 4")
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
    bed.ip(*(f"route add unreachable 20.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(count)))
    for monitor in ["connd", "netlink"] if IS_FULL else ["connd"]:
        program = watcher(kind="plain", GIO_USE_NETWORK_MONITOR=monitor)
        kind, status = begin(program)
        time, memory = bed.figures(program)
        print(f"  {count:,} routes: {kind} took {time / 1000:.1f} ms and {memory} KiB")
        check(status == "online free 4" and (kind == GLIBS or memory < 2048), program.seen)
        program.end()
    bed.ip("route flush root 20.0.0.0/8")


def foreign(connd):
    """A connd of another network namespace, or of another user, is not believed."""
    with servers.Server(servers.sends(servers.VALID)):
        check(begin(own := watcher(socket=servers.SOCKET))[0] == OURS, own.seen)
        own.end()
    with servers.Server(servers.sends(servers.VALID), user=65534):
        check(begin(other := watcher(socket=servers.SOCKET))[0] == GLIBS, other.seen)
        other.end()
        # That user's own programs believe it.
        prefix = ("setpriv", "--reuid=65534", "--clear-groups")
        check(begin(own := watcher(socket=servers.SOCKET, wrapper=prefix))[0] == OURS, own.seen)
        own.end()
    outside = watcher(wrapper=("ip", "netns", "exec", "world"))
    check(begin(outside)[0] == GLIBS, outside.seen)
    outside.end()
    # Without a socket in the environment, the owner of the system's directory is trusted, too.
    connd.stop()
    for owner, kind in [(65534, OURS), (0, GLIBS)]:
        os.chown(os.path.dirname(SOCKET), owner, owner)
        with servers.Server(servers.sends(servers.VALID), user=65534, path=SOCKET):
            check(begin(program := watcher(socket=""))[0] == kind, program.seen)
            program.end()
        with servers.Server(servers.sends(servers.VALID), user=65534):
            check(begin(program := watcher(socket=servers.SOCKET))[0] == GLIBS, program.seen)
            program.end()
    with servers.Server(servers.sends(servers.VALID), user=65534, path="/mnt/connd.sock"):
        os.remove(SOCKET)
        own = watcher(socket="", wrapper=prefix, XDG_RUNTIME_DIR="/mnt")
        check(begin(own)[0] == OURS, own.seen)
        own.end()
    connd.start()


def choice(connd):
    """The priority is 25, or that of the configuration. A wrong line is reported, and has no effect."""
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
    variable = ["pkg-config", "--variable=gio_querymodules", "gio-2.0"]
    query = subprocess.run(variable, capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(MODULE, "/mnt/modules")
    subprocess.run([query, "/mnt/modules"], check=True)
    with open("/mnt/modules/giomodule.cache") as file:
        check("libgioconnd.so: gio-network-monitor" in file.read(), "gio-querymodules does not list the module")


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
            program = began(watcher(socket=servers.SOCKET), "online free 4")
            server.await_turn()
            check(program.reach(PEER) == "yes" and program.state() == "online free 4", name, program.seen)
            program.end()
    for name, (serve, status) in servers.VALID_STATUS.items():
        with servers.Server(serve):
            check(begin(program := watcher(socket=servers.SOCKET)) == (OURS, status), name, program.seen)
            program.end()
    with servers.Server(servers.minds_the_window):
        program = began(watcher(socket=servers.SOCKET), "online free 4")
        program.await_line("changed offline free 1")
        program.end()
    done = subprocess.run(["/mnt/sanitized/bytes", "200000" if IS_FULL else "20000"], capture_output=True, text=True)
    check(done.returncode == 0, done.stdout, done.stderr)
    print(" ", done.stdout.strip())


def memcheck(connd):
    """Valgrind finds no error and no lost memory, also after a restart."""
    # Threads that run at the end possibly lose their stacks' memory.
    options = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite",
               "--errors-for-leak-kinds=definite")
    program = began(watcher(kind="plain", wrapper=options), "online free 4")
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
    with following("gio", OURS, "full") as program:
        bed.pull("eth0")
        program.await_line("changed offline free local")
        bed.ip("route del " + bed.default("eth0"), "route del " + bed.default("wlan0"))
        program.await_line("changed online metered full")
        for link in bed.LINKS:
            bed.plug(link)
        program.await_line("changed online free full")


def qt(connd):
    # The glib backend of Qt 6.4 does not read network-metered.
    with following("qt", "glib", "Online") as program:
        bed.pull("eth0")
        program.await_line("changed offline free Disconnected")
        bed.ip("route del " + bed.default("eth0"))
        program.await_line("changed online free Online")
        bed.plug("eth0")


@contextlib.contextmanager
def following(library, monitor, online):
    """An unmodified program that follows the network by a library."""
    program = Program(["/usr/bin/python3", "Tests/Oracles/gio/unmodified.py", library],
                      GIO_EXTRA_MODULES=MODULE, CONND_SOCKET=SOCKET)
    check(program.await_line("monitor ") == f"monitor {monitor}", program.seen)
    check(program.await_line("start ") == f"start online free {online}", program.seen)
    yield program
    program.process.kill()
    program.process.wait()


def portal(connd):
    """The portal, by which sandboxed programs ask, answers as connd does."""
    script = """
portal() { gdbus call --session --timeout 10 --dest org.freedesktop.portal.Desktop \
    --object-path /org/freedesktop/portal/desktop --method "org.freedesktop.portal.NetworkMonitor.$@"; }
/usr/libexec/xdg-desktop-portal 2>/dev/null &
gdbus wait --session --timeout 20 org.freedesktop.portal.Desktop
echo ready
while read -r line; do echo "answer $(eval "portal $line" 2>&1)"; done
kill $!
"""
    program = Program(["dbus-run-session", "--", "bash", "-c", script],
                      GIO_EXTRA_MODULES=MODULE, CONND_SOCKET=SOCKET, XDG_RUNTIME_DIR="/mnt")
    program.await_line("ready")

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
    program.process.stdin.close()
    program.process.wait(bed.DEADLINE)


CASES = [four_cases, reach, thread, cycle, crowd, restart, suspended, routes, foreign, choice, absent, hostile,
         memcheck, python, qt, portal]


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
