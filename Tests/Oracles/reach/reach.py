"""reach.py CONND [OPTION...] [quick | CASE...]: pulls the cable under unchanged programs that run under a guard, and
prints a Markdown table of what they do.

CASE is the beginning of a case's name. A guard prints a line with "connctl: ended" for each connection that it ends.
By default it is `connctl run --guard`. `--beside "connctl reap --port 22 --port 80"` tries a service of root instead.
Exits with 1 if a program does not do what `cases.py` expects, and with --all also if one is not installed.
"""

import argparse
import os
import shlex
import subprocess
import sys
import threading
import time

import bed
import build
import servers
from bed import RUN, check, eventually
from cases import BEGUN, COMPLETES, CUT, ERROR, LARGE, OUT, PYTHON, RETRIES, WAITS, cases
from program import Program

PATIENCE = 10  # connctl's own --patience
LIMIT = 60  # A program that has not ended by then hangs. Without a guard it does so for minutes.
MAX_SHARE = 0.05
FLAP, MAX_FLAP = 1, 1.5


class Bench:
    def __init__(self, arguments):
        self.connd = os.path.realpath(arguments.connd)
        self.beside = shlex.split(arguments.beside)
        self.guard = [] if self.beside else shlex.split(arguments.guard)
        self.servers = servers.Servers()

    def prepare(self):
        for directory in ["home", "files"]:
            os.makedirs(f"{RUN}/{directory}")
        os.chown(f"{RUN}/home", bed.USER, bed.USER)
        with open(f"{RUN}/home/.wgetrc", "w") as file:
            file.write(f"ca_certificate = {RUN}/certificate.pem\n")
        with open(f"{RUN}/files/body", "wb") as file:
            file.write(servers.BODY)
        with open(f"{RUN}/files/large", "wb") as file:
            file.write(LARGE)
        bed.make()
        self.servers.listen()

    def run(self, case):
        if self.beside and case.expects == WAITS and case.trouble != "unguarded":
            # The kernel needs no descriptor.
            case.expects = ERROR
        build.prepare(case)
        if case.server:
            self.servers.start(*case.server)
        daemon = bed.Connd(self.connd, os.path.join(os.path.dirname(self.connd), "connctl"))
        try:
            if case.trouble == "multipath":
                bed.ip("mptcp limits set subflows 2 add_addr_accepted 2", "rule add from 198.51.100.2 table 2",
                       "route add default via 198.51.100.1 dev wlan0 table 2",
                       "mptcp endpoint add 198.51.100.2 dev wlan0 subflow")
            first = self.attempt(case, case.command, is_first=True)
            result = Result(case, first)
            if case.expects != WAITS and case.begun != "visitor" and case.trouble != "reset":
                result.next = self.attempt(case, case.again or case.command)
        finally:
            for name in bed.LINKS:
                bed.plug(name)
            if case.trouble == "multipath":
                bed.ip("mptcp endpoint flush", "rule del from 198.51.100.2 table 2", "route flush table 2")
            daemon.stop()
        return result

    def attempt(self, case, command, is_first=False):
        clean()
        trouble = None
        is_guarded = case.trouble not in ("unguarded", "reset")
        program = Program(self.guard if is_guarded else [], command, self.beside if is_guarded else [])
        try:
            if is_first:
                self.await_begin(case, program)
                program.begin()
                trouble = threading.Thread(target=TROUBLES.get(case.trouble, self.servers.reset))
                trouble.start()
            limit = PATIENCE + 5 if case.expects == WAITS else LIMIT
            program.wait(limit)
            program.is_complete = is_complete(case, program)
        finally:
            program.end()
            self.servers.reset()
            if trouble:
                trouble.join()
        if is_first and case.trouble in ("flap", "away"):
            pull(0)
        return program

    def await_begin(self, case, program):
        def begun():
            check(program.process.poll() is None, case.name, "ended before its link was lost:", program.errors)
            if case.begun == "answer":
                return self.servers.begun.is_set()
            if isinstance(case.begun, int):
                return servers.has_client(case.begun)
            if case.begun == "visitor":
                return self.servers.visit(bed.address("eth0"), 8000)
            # scp and git make hidden files, or the file itself, before the first octets.
            return os.path.exists(case.begun)
        check(eventually(begun), case.name, "does not begin:", program.errors)
        # A session has said what it wants.
        time.sleep(0.5)


def pull(gap=0.3):
    bed.pull("eth0")
    time.sleep(gap)
    bed.leave("eth0")


def alone():
    bed.leave("wlan0")
    pull()
    # The next attempt needs a way.
    time.sleep(PATIENCE + 2)
    bed.plug("wlan0")


def flap():
    begun = time.monotonic()
    bed.pull("eth0")
    time.sleep(FLAP)
    bed.ip("link set eth0 up", world=True)
    if time.monotonic() - begun > MAX_FLAP:
        # This machine is too busy to say anything about a short flap.
        flap.was_late = True


flap.was_late = False


def away():
    pull()
    time.sleep(6)
    bed.plug("eth0")


TROUBLES = {"pull": pull, "gap": lambda: pull(3), "alone": alone, "flap": flap, "away": away, "multipath": pull,
            "unguarded": pull}


def clean():
    """Removes the files of an earlier attempt."""
    subprocess.run(["rm", "-rf", f"{RUN}/home/out", f"{RUN}/home/out2", OUT + ".status", BEGUN], check=True)


def is_complete(case, program):
    """Whether the file, or the standard output, has all of the answer."""
    if case.answer is None:
        return program.status == 0
    if os.path.isfile(OUT):
        with open(OUT, "rb") as file:
            return file.read() == case.answer
    return program.output.endswith(case.answer)


class Result:
    def __init__(self, case, first):
        self.case, self.first, self.next = case, first, None

    def faults(self):
        first, expects = self.first, self.case.expects
        is_over, is_ended = first.status is not None, bool(first.ends)
        wants = {
            ERROR: is_over and is_ended and first.status != 0,
            RETRIES: first.status == 0 and is_ended and first.is_complete,
            COMPLETES: first.status == 0 and not is_ended and first.is_complete,
            CUT: is_over and (is_ended or self.case.trouble == "reset"),
            WAITS: not is_over and not is_ended,
        }
        if not wants[expects]:
            yield f"expected: {expects}; {first.describe()}"
        if self.next and not (self.next.status == 0 and self.next.is_complete and not self.next.ends):
            yield f"the next attempt: {self.next.describe()}"
        if (first.share or 0) > MAX_SHARE:
            yield f"{first.share:.0%} of a processor after the end"

    def lines(self):
        return [line for attempt in [self.first, self.next] if attempt
                for line in attempt.lines if not line.startswith(("\t", "    "))][:8]

    def row(self):
        first, faults = self.first, list(self.faults())
        seconds = f"{first.ended - first.begun:.1f}" if first.status is not None else "–"
        said = {None: "", 0: "complete" if first.is_complete else "**cut**"}.get(first.status, first.text())
        after = f"{self.next.ended - self.next.started:.1f}" if self.next and self.next.status == 0 else "–"
        share = "" if first.share is None else f"{first.share:.0%}"
        ends = f"{first.ends[0][0] - first.begun:.1f}" + (f" × {len(first.ends)}" if len(first.ends) > 1 else "") \
            if first.ends else "–"
        status = "waits" if first.status is None else first.status
        cells = [self.case.name, ends, seconds, status, said, after, share, "FAULT" if faults else ""]
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def chosen(names):
    table = cases()
    if not names:
        return table
    found = [case for case in table
             if any(case.is_quick if name == "quick" else case.name.startswith(name) for name in names)]
    return found or sys.exit(f"no case begins with: {', '.join(names)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("connd")
    parser.add_argument("--guard", default=".build/debug/connctl run --guard --", help="what a program is run with")
    parser.add_argument("--beside", default="", help="a command of root that guards all programs, instead")
    parser.add_argument("--python", default="/usr/bin/python3", help="for other versions of the libraries")
    parser.add_argument("--all", action="store_true", help="fail if a program is not installed")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_intermixed_args()
    PYTHON[:] = [arguments.python]
    bench, faults, skipped, costs = Bench(arguments), [], [], []
    bench.prepare()
    print("| program | connection ended after | program ended after | status | error | next attempt took "
          "| processor after the end | |\n|---|--:|--:|--:|---|--:|--:|---|", flush=True)
    for case in chosen(arguments.cases):
        if missing := case.missing():
            skipped.append(f"{case.name}: needs {', '.join(missing)}")
            continue
        try:
            result = bench.run(case)
            while flap.was_late:
                flap.was_late = False
                result = bench.run(case)
        except (bed.Failure, subprocess.SubprocessError) as error:
            faults.append(f"{case.name}: {error}")
            continue
        print(result.row(), flush=True)
        costs.append(result.first.cost)
        faults += [f"{case.name}: {fault}\n    " + "\n    ".join(result.lines())
                   for fault in result.faults()]
    print(f"\n{len(costs)} cases, {len(faults)} faults, {len(skipped)} skipped")
    if costs:
        costs.sort()
        median, most = (1000 * cost for cost in [costs[len(costs) // 2], costs[-1]])
        print(f"The guard used {median:.0f} ms of a processor in the median, {most:.0f} ms at most")
    for line in skipped:
        print("skipped:", line)
    for fault in faults:
        print("fault:", fault)
    sys.exit(1 if faults or skipped and arguments.all else 0)


main()
