"""Real TCP connections that carry bytes all the time, and the servers that send them back.

All of it is one thread: a socket belongs to the namespace in which it was made. Each connection sends a number every 50 ms, every
second connection every 10 ms, and gets it back. TCP keeps the order. If a number that was sent after a change comes back, the
way works in both directions after the change.
"""

import collections
import errno
import os
import select
import socket
import struct
import time

from kernel import Question, libc

TICK = 0.01
SLOW = 5  # ticks between two numbers of a connection that is not busy
GAP = 0.018  # the longest time between two echoes of a busy connection that carries bytes; E1 waits 20 ms at least
NUMBER = struct.Struct("!Q")
TCP_RTO_MAX_MS = 44


class Connection:
    """One connection of a kind that was drawn; see topology.draw_connection."""

    def __init__(self, slot, wanted, sock):
        self.slot, self.wanted, self.socket = slot, wanted, sock
        self.uid = wanted.get("uid", 0)
        self.is_busy = slot % 2 == 1
        self.is_connected = False
        self.error = None
        self.number = self.echoed = 0
        self.echoes = collections.deque(maxlen=800)  # when each came
        self.rest = b""
        self.unsent = b""
        self.id = None  # by which connd knows it
        self.first = None  # what the kernel said of it when it was made
        self.began = time.monotonic()

    def name(self, kernel_links):
        """The 5-tuple as the kernel has it, and what else it is routed by."""
        self.local, self.local_port = self.socket.getsockname()[:2]
        self.remote, self.remote_port = self.socket.getpeername()[:2]
        device = self.wanted.get("device")
        index = next((link.index for link in kernel_links.values() if link.name == device), 0)
        plain = lambda address: address.removeprefix("::ffff:")
        self.address = plain(self.local)
        # A socket that is bound to a link goes by no other. A lookup says so, too, but for IPv6 only where no source is given.
        asked = None if index and ":" in self.address else self.address
        self.own = Question(
            plain(self.remote), asked, self.local_port, self.remote_port, socket.IPPROTO_TCP,
            self.wanted.get("mark", 0), self.uid, index)
        self.free = Question(
            plain(self.remote), None, self.local_port, self.remote_port, socket.IPPROTO_TCP,
            self.wanted.get("mark", 0), self.uid, index)

    def witness(self):
        """What the socket says of itself."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        unacknowledged, = struct.unpack_from("=I", info, 24)
        acknowledged, = struct.unpack_from("=I", info, 56)
        return (f"the socket: {info[4]} timeouts in a row, {info[2]} retransmissions, {unacknowledged} segments unacknowledged, "
                f"heard {acknowledged} ms ago")

    def was_heard(self, start, end):
        return any(start < echo < end for echo in self.echoes)

    def carried(self, start, end):
        """Whether bytes came back all the time from `start` to `end`; only of a busy connection this is known."""
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
        # Who is gone without a word is forgotten.
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
        """A connection that is under way, or None where the kernel refuses at once."""
        is_six = wanted["family"] == 6 or wanted["kind"] == "mapped"
        map = lambda address: f"::ffff:{address}" if wanted["kind"] == "mapped" else address
        with namespace:
            # A socket is of the user who made it.
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
        """The next number, which is returned."""
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
        # A soft error, as an ICMP message makes, is told once, and the connection goes on.
        if connection.is_connected and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
            return
        connection.error = error
        try:
            self.poll.unregister(connection.socket.fileno())
        except OSError:
            pass

    def close(self, connection):
        """At once, without a trace."""
        self.connections.remove(connection)
        self.handlers.pop(connection.socket.fileno(), None)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()

    def pump(self, seconds, holds=lambda: False):
        """Lets the bytes flow until it holds, for so long at most. Returns whether it holds."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if now >= self.next:
                self.next = now + TICK
                self.ticks += 1
                for connection in self.connections:
                    # No more than one buffer is filled while nothing gets through.
                    if (connection.is_busy or self.ticks % SLOW == 0) and connection.number - connection.echoed < 500:
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
