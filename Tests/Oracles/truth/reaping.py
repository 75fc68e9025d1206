"""A reaper beside a world's connections. It ends dead connections of programs that do not use connd
(R1 to R6).

Connections that connd has destroyed go on beside the new ones, until the reaper ends them.

    reap    `connctl reap`: by the kernel (SOCK_DESTROY)
    guard   `connctl run --guard`: through the descriptors of its command, which is this file
"""

import os
import socket
import subprocess
import sys
import time

from clients import check

KINDS = ["reap", "guard"]
PATIENCE = 3  # seconds that connctl waits for another path
LEFT = 8  # seconds that a destroyed connection goes on
# The reaper decides by the peer's silence during its hold of 2 s. A connection that comes back
# while it decides may end, too. Times are those of reading, and this loop may be late.
HOLD, DECISION = 1.5, 0.5


class Reaper:
    def __init__(self, kind, connctl, namespace, connd, directory):
        self.log = open(f"{directory}/{kind}.log", "w+")
        self.near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = ["reap"] if kind == "reap" else ["run", "--guard"]
        words += ["--patience", f"{PATIENCE}s"] + (["--", sys.executable, __file__] if kind == "guard" else [])
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, connctl, "--socket", connd, *words], stdin=far, stdout=self.log, stderr=self.log)
        far.close()
        self.is_guard = kind == "guard"
        self.left = {}  # destroyed connections, and when they are closed

    def hold(self, sock):
        if self.is_guard:
            socket.send_fds(self.near, [b"%d" % sock.fileno()], [sock.fileno()])

    def release(self, sock):
        if self.is_guard and self.process.poll() is None:
            self.near.send(b"%d" % sock.fileno())

    def leave(self, connection):
        self.left[connection] = time.monotonic() + LEFT

    def take(self):
        """Returns the connections that the reaper has ended, or that have gone on long enough."""
        check(self.process.poll() is None, f"connctl ended by itself: {self.lines()}")
        done = [connection for connection, end in self.left.items() if connection.error or time.monotonic() > end]
        for connection in done:
            del self.left[connection]
        return done

    def was_wrong(self, connection):
        """Whether the peer of a connection was heard shortly before the reaper ended it."""
        return connection.was_heard(connection.ended - HOLD, connection.ended - DECISION)

    def lines(self):
        self.log.seek(0)
        return self.log.read().splitlines()

    def end(self):
        self.near.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()


def command():
    """Holds each received socket until its number is received again."""
    near, held = socket.socket(fileno=0), {}
    while True:
        number, descriptors, _, _ = socket.recv_fds(near, 16, 1)
        if not number:
            return
        if descriptors:
            held[number], = descriptors
        else:
            os.close(held.pop(number))


if __name__ == "__main__":
    command()
