"""The answers of the module while connd runs, beside those of GLib's own monitor and curl."""

import os

import bed
from bed import PEER, check, eventually
from watching import GLIBS, IS_FULL, OURS, began, begin, watcher


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
