"""Absent, stopped, foreign and hostile servers, and errors of memory."""

import os
import subprocess

import bed
import servers
from bed import PEER, SOCKET, check, eventually
from watching import GLIBS, IS_FULL, began, begin, watcher


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


def absent(connd):
    connd.stop()
    for kind in ["plain", "sanitized"]:
        program = watcher(kind=kind)
        check(begin(program)[0] == GLIBS, program.seen)
        program.end()
    connd.start()


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
