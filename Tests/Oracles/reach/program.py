"""A command that runs under a guard, as a user without privileges."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import bed
from bed import RUN

TICKS = os.sysconf("SC_CLK_TCK")
MIN_WINDOW = 1  # seconds: over less, a share says nothing
ENVIRONMENT = {
    "PATH": os.environ["PATH"], "HOME": f"{RUN}/home", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
    # All take this certificate authority.
    "CURL_CA_BUNDLE": f"{RUN}/certificate.pem", "SSL_CERT_FILE": f"{RUN}/certificate.pem",
    "REQUESTS_CA_BUNDLE": f"{RUN}/certificate.pem", "NODE_EXTRA_CA_CERTS": f"{RUN}/certificate.pem",
}


class Program:
    """`ends` are the guard's lines about connections that it ended, each with its time."""

    def __init__(self, guard, command, beside):
        """`beside` is a command of root, which guards it from outside."""
        self.guard = bool(guard)
        self.output, self.lines, self.ends = b"", [], []
        self.status = self.ended = self.is_complete = self.share = None
        self.cost = 0
        self.beside = subprocess.Popen(beside, env=ENVIRONMENT, stderr=subprocess.PIPE) if beside else None
        self.started = self.begun = time.monotonic()
        self.process = subprocess.Popen(
            bed.without_privileges([*guard, *command]), env=ENVIRONMENT, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.threads = [threading.Thread(target=self.read, daemon=True)] + [
            threading.Thread(target=self.read_errors, args=(process,), daemon=True)
            for process in [self.process, self.beside] if process]
        for thread in self.threads:
            thread.start()

    def begin(self):
        """The link is about to be lost."""
        self.begun = time.monotonic()

    @property
    def errors(self):
        return " ".join(self.lines)

    def read(self):
        while part := self.process.stdout.read1():
            self.output += part

    def read_errors(self, process):
        for line in process.stderr:
            # A program may be in the middle of a line.
            text, mark, own = line.decode(errors="replace").rstrip().partition("connctl: ended ")
            self.lines += filter(None, [text, mark + own])
            if mark:
                self.ends.append((time.monotonic(), own))

    def wait(self, limit):
        """Waits until it ends, or for these seconds. Measures its processor time after the first end."""
        first = None
        while time.monotonic() < self.begun + limit:
            now, own, others = time.monotonic(), *self.times()
            self.cost = max(self.cost, own)
            if self.ends and first is None:
                first = now, others
            elif first and now - first[0] >= MIN_WINDOW and others >= first[1]:
                self.share = (others - first[1]) / (now - first[0])
            try:
                self.status = self.process.wait(0.1)
                self.ended = time.monotonic()
                # Its output ends with it, unless it leaves children.
                self.threads[0].join(MIN_WINDOW)
                break
            except subprocess.TimeoutExpired:
                pass
        else:
            self.ended = time.monotonic()
        if self.beside:
            # It may say so after the program has seen it.
            bed.eventually(lambda: self.ends, MIN_WINDOW)

    def times(self):
        """The seconds of processor time that the guard and that its descendants have used."""
        own, others = 0, 0
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            if not (fields := stat(pid)):
                continue
            seconds = (int(fields[11]) + int(fields[12])) / TICKS
            if pid == self.process.pid and self.guard:
                own = seconds
            else:
                others += seconds
        return own, others

    def end(self):
        for process in [self.process, *([self.beside] if self.beside else [])]:
            for pid in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        for thread in self.threads:
            thread.join(bed.DEADLINE)

    def text(self):
        """The program's first error, or the last line of Python's traces; without the guard's lines."""
        lines = [line for line in self.lines
                 if line.strip() and not line.startswith(("connctl: ", "[guard ", " ", "\t", "Caused by"))]
        is_trace = any(line.startswith("Traceback") for line in lines)
        text = lines[-1 if is_trace else 0].strip() if lines else ""
        return text.removeprefix('Exception in thread "main" ')[:110]

    def describe(self):
        status = "has not ended" if self.status is None else f"status {self.status}"
        return f"{status}, {'complete' if self.is_complete else 'not complete'}, {len(self.ends)} ended, {self.text()!r}"


def stat(pid):
    """The fields of stat after the program's name, from the state on; or none if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(root):
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(name)):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, rest = [], [root]
    while rest:
        found += children.get(rest[-1], [])
        rest = rest[:-1] + children.get(rest[-1], [])
    return found
