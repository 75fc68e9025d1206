"""Real TCP connections with continuous traffic, and their echo servers.

All of it is one thread: a socket belongs to the namespace in which it was made. Each connection
sends a number every 50 ms, every second connection every 10 ms and every fourth every 3 s, and gets it
back. TCP keeps the order. If a number that was sent after a change comes back, the way works in both directions after
the change.
"""

import collections
import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time

from kernel import Question, libc

TICK = 0.01
SLOW, QUIET = 5, 300  # ticks between two numbers of a slow connection, and of a quiet one
PROBING = 1.5  # seconds in which the kernel sends a keepalive probe
# the longest time between two echoes of a working busy connection; E1 waits at least 20 ms
GAP = 0.018
NUMBER = struct.Struct("!Q")
TCP_RTO_MAX_MS = 44


def plain(address):
    """Returns an IPv4-mapped address as the IPv4 address."""
    return address.removeprefix("::ffff:")


class Connection:
    """One connection of a drawn kind; see topology.draw_connection."""

    def __init__(self, slot, wanted, sock):
        self.slot, self.wanted, self.socket = slot, wanted, sock
        self.uid = wanted.get("uid", 0)
        self.is_busy = slot % 2 == 1
        self.ticks = 1 if self.is_busy else QUIET if slot % 4 == 2 else SLOW  # from one number to the next
        self.is_connected = False
        self.error = None
        self.ended = None  # the time of the error
        self.number = self.echoed = 0
        self.echoes = collections.deque(maxlen=800)  # the time of each
        self.rest = b""
        self.unsent = b""
        self.id = None  # connd's id for it
        self.first = None  # the kernel's view when it was made
        self.began = time.monotonic()

    def name(self, kernel_links):
        """Returns the kernel's 5-tuple, and the other routing keys."""
        self.local, self.local_port = self.socket.getsockname()[:2]
        self.remote, self.remote_port = self.socket.getpeername()[:2]
        device = self.wanted.get("device")
        index = next((link.index for link in kernel_links.values() if link.name == device), 0)
        self.address = plain(self.local)
        # A socket bound to a link uses no other. A lookup agrees, except for IPv6 with a source.
        asked = None if index and ":" in self.address else self.address
        self.own = Question(
            plain(self.remote), asked, self.local_port, self.remote_port, socket.IPPROTO_TCP,
            self.wanted.get("mark", 0), self.uid, index)
        self.free = Question(
            plain(self.remote), None, self.local_port, self.remote_port, socket.IPPROTO_TCP,
            self.wanted.get("mark", 0), self.uid, index)

    def witness(self):
        """The socket's own report."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        unacknowledged, = struct.unpack_from("=I", info, 24)
        acknowledged, = struct.unpack_from("=I", info, 56)
        return (f"the socket: {info[4]} timeouts in a row, {info[2]} retransmissions, {unacknowledged} segments unacknowledged, "
                f"heard {acknowledged} ms ago")

    def timeouts(self):
        """The number of timeouts in a row, or None if all data is acknowledged."""
        try:
            info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        except OSError:
            return None
        unacknowledged, = struct.unpack_from("=I", info, 24)
        return max(info[2], info[4]) if unacknowledged else None

    def ask(self):
        """Asks the peer by a keepalive probe (E4)."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        except OSError:
            return
        threading.Timer(PROBING, self.rest_asking).start()

    def rest_asking(self):
        with contextlib.suppress(OSError):  # it may have been closed
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)

    def was_reaped(self):
        """Whether this machine has ended the connection. Disconnecting it resets the counts."""
        if not self.error or not self.echoes:
            return False
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
        received, = struct.unpack_from("=Q", info, 128)
        return self.error.errno == errno.ECONNABORTED or not received

    def was_heard(self, start, end):
        return any(start < echo < end for echo in self.echoes)

    def was_silent(self, start, seconds):
        """Whether nothing came back for this long since `start`, and then something did."""
        times = [start, *[echo for echo in self.echoes if echo > start]]
        return any(later - earlier > seconds for earlier, later in zip(times, times[1:]))

    def carried(self, start, end):
        """Whether bytes came back all the time from `start` to `end`; known only for a busy
        connection.
        """
        times = [start, *[echo for echo in self.echoes if start < echo < end], end]
        return self.is_busy and all(later - earlier < GAP for earlier, later in zip(times, times[1:]))

    def __str__(self):
        details = " ".join(f"{key} {value}" for key, value in self.wanted.items() if key in ("device", "mark", "uid"))
        return (f"connection {self.slot} ({self.wanted['kind']}) tcp {self.local} port {self.local_port} to {self.remote} "
                f"port {self.remote_port} {details}").rstrip()


class Traffic:
    def __init__(self):
        self.poll = select.epoll()
        self.handlers = {}
        self.connections = []
        self.reaper = None  # what is given the connections' sockets
        self.sockets = {}  # the server's
        self.next = self.ticks = 0
        self.bell, ring = os.pipe()
        self.ring = lambda: os.write(ring, b"!")
        self.closing = [lambda: os.close(ring), lambda: os.close(self.bell)]
        self.watch(self.bell, lambda _: os.read(self.bell, 4096))

    def watch(self, descriptor, handler, events=select.EPOLLIN):
        self.handlers[descriptor] = handler
        self.poll.register(descriptor, events)

    def forget(self, sock):
        self.poll.unregister(sock.fileno())
        del self.handlers[sock.fileno()]
        sock.close()

    def tune(self, sock):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)

    # The servers

    def serve(self, namespace, *ports):
        for port in ports:
            with namespace:
                listener = socket.socket(socket.AF_INET6)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(("::", port))
            listener.listen(64)
            self.sockets[listener.fileno()] = listener
            self.watch(listener.fileno(), lambda _, listener=listener: self.accept(listener))

    def accept(self, listener):
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        self.tune(sock)
        # Forgets clients that vanished.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30000)
        self.sockets[sock.fileno()] = sock
        self.watch(sock.fileno(), lambda _: self.echo(sock))

    def echo(self, sock):
        try:
            data = sock.recv(65536)
            if data:
                sock.send(data)
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        del self.sockets[sock.fileno()]
        self.forget(sock)

    # The clients

    def connect(self, slot, wanted, namespace):
        """Returns a connection being made, or None if the kernel refuses immediately."""
        is_six = wanted["family"] == 6 or wanted["kind"] == "mapped"
        map = lambda address: f"::ffff:{address}" if wanted["kind"] == "mapped" else address
        with namespace:
            # A socket belongs to the user who made it.
            libc.setfsuid(wanted.get("uid", 0))
            sock = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET)
            libc.setfsuid(0)
        try:
            self.tune(sock)
            if "mark" in wanted:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, wanted["mark"])
            if "device" in wanted:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, wanted["device"].encode())
            if "local" in wanted:
                sock.bind((map(wanted["local"]), 0))
            code = sock.connect_ex((map(wanted["remote"]), wanted["port"]))
            if code != errno.EINPROGRESS:
                raise OSError(code, os.strerror(code))
        except OSError:
            sock.close()
            return None
        if self.reaper:
            self.reaper.hold(sock)
        connection = Connection(slot, wanted, sock)
        self.connections.append(connection)
        self.watch(sock.fileno(), lambda events: self.hear(connection, events), select.EPOLLIN | select.EPOLLOUT)
        return connection

    def hear(self, connection, events):
        try:
            if not connection.is_connected:
                code = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                connection.is_connected = True
                self.poll.modify(connection.socket.fileno(), select.EPOLLIN)
                self.send(connection)
            if events & (select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP):
                data = connection.socket.recv(65536)
                if not data:
                    raise OSError(0, "closed by the other end")
                data = connection.rest + data
                count = len(data) // NUMBER.size
                connection.rest = data[count * NUMBER.size:]
                if count:
                    connection.echoed, = NUMBER.unpack_from(data, (count - 1) * NUMBER.size)
                    connection.echoes.append(time.monotonic())
        except BlockingIOError:
            pass
        except OSError as error:
            self.fail(connection, error)

    def send(self, connection):
        """Sends the next number, and returns it."""
        connection.number += 1
        if not connection.error and connection.is_connected:
            connection.unsent += NUMBER.pack(connection.number)
            try:
                count = connection.socket.send(connection.unsent)
                connection.unsent = connection.unsent[count:]
            except BlockingIOError:
                pass
            except OSError as error:
                self.fail(connection, error)
        return connection.number

    def fail(self, connection, error):
        # A soft error, like one from an ICMP message, is reported once, and the connection
        # continues.
        if connection.is_connected and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
            return
        connection.error, connection.ended = error, time.monotonic()
        self.unregister(connection.socket)

    def unregister(self, sock):
        with contextlib.suppress(OSError):
            self.poll.unregister(sock.fileno())

    def close(self, connection):
        """Closes it immediately, without a trace."""
        self.connections.remove(connection)
        self.handlers.pop(connection.socket.fileno(), None)
        # While another process has the socket, closing it does not suffice.
        self.unregister(connection.socket)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self.reaper:
            self.reaper.release(connection.socket)
        connection.socket.close()

    def pump(self, seconds, holds=lambda: False):
        """Lets the bytes flow until the condition holds, but not longer than this. Returns whether
        it holds.
        """
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if now >= self.next:
                self.next = now + TICK
                self.ticks += 1
                for connection in self.connections:
                    # At most one buffer is filled while nothing gets through.
                    if self.ticks % connection.ticks == 0 and connection.number - connection.echoed < 500:
                        self.send(connection)
            if holds():
                return True
            if now >= end:
                return False
            for descriptor, events in self.poll.poll(max(min(end, self.next) - now, 0)):
                handler = self.handlers.get(descriptor)
                if handler:
                    handler(events)

    def end(self):
        for connection in list(self.connections):
            self.close(connection)
        for sock in self.sockets.values():
            sock.close()
        self.poll.close()
        for close in self.closing:
            close()
