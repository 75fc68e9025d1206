"""Starts programs with the module, and checks how they begin."""

import sys
import time

import bed
from bed import SOCKET, Program, check

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
