"""Ends the dead TCP connections of a program, by connd's advice. Needs only the standard library.

    python -m connd SCRIPT [ARGUMENTS]      # guards all connections of a program
    python -m connd -m MODULE [ARGUMENTS]

    import connd
    connd.install()                         # the same, for the program that calls it
    connd.guard(sock, is_new=True)          # one connection: a socket, a StreamWriter, a descriptor
    connd.status()                          # the state of the network; connd.watch() follows it

When connd finds a guarded connection dead, reads and writes fail with ConnectionResetError or
BrokenPipeError, in any thread or task that waits for them. The program then connects again. If
connd is not running, or speaks for another network namespace, nothing happens.

All functions may be called from any thread. A daemon thread, which runs from the first guarded
connection on, talks to connd. A child made by fork has a connection to connd of its own, once it
guards something.

The protocol is described in connectivity.proto. Numbers such as E4 are rules of docs/rules.md.
"""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import runpy
import select
import socket
import struct
import sys
import threading
import time
from typing import NamedTuple, Optional

__all__ = ["Event", "Guard", "Status", "guard", "install", "status", "watch", "watch_async"]
_log = logging.getLogger("connd")

# MARK: HTTP/2 and protobuf

_SYSTEM = "/run/connd/connd.sock"
_MAX_FRAME, _MAX_MESSAGE, _WINDOW = 16384, 1 << 20, 1 << 30
_MAX_PENDING = 32768  # bytes that connd has not read yet


class _Lost(OSError):
    """The call has ended, or connd sends what is not its protocol."""


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number, value):
    """A field with a number or bytes. Nothing for None."""
    if value is None:
        return b""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _read_varint(data, at):
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number, at
    raise _Lost("malformed protobuf")


def _decode(data):
    """Returns the first value of each field, as a number or bytes, by the field's number."""
    fields, at = {}, 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == 0:
            value, at = _read_varint(data, at)
        else:
            if key & 7 == 2:
                length, at = _read_varint(data, at)
            else:
                length = {1: 8, 5: 4}.get(key & 7, len(data))
            if at + length > len(data):
                raise _Lost("malformed protobuf")
            value, at = data[at:at + length], at + length
        fields.setdefault(key >> 3, value)
    return fields


def _socket_path():
    """Returns the path of connd's socket, and whether the environment names it."""
    path = os.environ.get("CONND_SOCKET")
    if path:
        return path, True
    directory = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0 or os.path.exists(_SYSTEM) or not directory:
        return _SYSTEM, False
    return directory + "/connd.sock", True


def _frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


class _Call:
    """A connection to connd with one call. Does not block. Skips header blocks, because the end of
    the call is all that matters."""

    def __init__(self, method, message=None):
        path, is_environment = _socket_path()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.connect(path)
            self._check_owner(path, is_environment)
        except OSError:
            self.socket.close()
            raise
        self.window = self.stream_window = self._initial_window = 65535
        self.is_over = False  # whether connd has ended the call
        self._received = 0  # bytes that connd's windows do not have back yet
        self._input, self._message = bytearray(), bytearray()
        name = "/connectivity.v1.Connectivity/" + method
        headers = (b"\x83\x86\x04" + bytes([len(name)]) + name.encode() + b"\x01\x09localhost"
                   b"\x0f\x10\x10application/grpc\x00\x02te\x08trailers")
        # SETTINGS: no push, a window of 1 GiB
        self.output = bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                + _frame(4, 0, 0, struct.pack(">HIHI", 2, 0, 4, _WINDOW))
                                + _frame(8, 0, 0, struct.pack(">I", _WINDOW - 65535))
                                + _frame(1, 4, 1, headers))
        if message is not None:
            self.send(message, is_last=True)
            self.flush()

    def _check_owner(self, path, is_environment):
        """Another user's answers could end connections. So root, this user, or the owner of the
        system's directory must listen."""
        _, uid, _ = struct.unpack("iII", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.geteuid()) and (is_environment or os.stat(os.path.dirname(path)).st_uid != uid):
            raise PermissionError(f"uid {uid} listens on {path}, but is neither root nor this user")

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()

    def send(self, message, is_last=False):
        """Queues a message. Returns False if it has to wait for room."""
        size = 5 + len(message)
        if size > min(self.window, self.stream_window) or len(self.output) + size > _MAX_PENDING // 2:
            return False
        self.output += _frame(0, int(is_last), 1, b"\0" + struct.pack(">I", len(message)) + message)
        self.window -= size
        self.stream_window -= size
        return True

    def flush(self):
        """Sends what is pending, as far as connd reads."""
        while self.output:
            try:
                del self.output[:self.socket.send(self.output)]
            except (BlockingIOError, InterruptedError):
                break
        if len(self.output) > _MAX_PENDING:
            raise _Lost("connd does not read")

    def receive(self):
        """Reads what has arrived, up to a few frames. Returns the messages."""
        try:
            data = self.socket.recv(65536)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise _Lost("connd has closed the connection")
        self._input += data
        messages, at = [], 0
        while len(self._input) - at >= 9:
            length = int.from_bytes(self._input[at:at + 3], "big")
            if length > _MAX_FRAME:
                raise _Lost("a frame is too large")
            if len(self._input) - at - 9 < length:
                break
            kind, flags, stream = struct.unpack_from(">BBI", self._input, at + 3)
            body = bytes(self._input[at + 9:at + 9 + length])
            at += 9 + length
            self._handle(kind, flags, stream & 0x7fffffff, body, messages)
        del self._input[:at]
        self.flush()
        return messages

    def _handle(self, kind, flags, stream, body, messages):
        if kind == 0:  # DATA
            self._received += len(body)
            if self._received > _WINDOW // 4:
                update = struct.pack(">I", self._received)
                self.output += _frame(8, 0, 0, update) + _frame(8, 0, 1, update)
                self._received = 0
            if flags & 8:
                if not body or body[0] >= len(body):
                    raise _Lost("a frame's padding is too long")
                body = body[1:len(body) - body[0]]
            if stream == 1:
                self._message += body
                self._take_messages(messages)
        elif kind == 4 and not flags & 1:  # SETTINGS
            for at in range(0, len(body) - 5, 6):
                name, value = struct.unpack_from(">HI", body, at)
                if name == 4:  # INITIAL_WINDOW_SIZE
                    self.stream_window += value - self._initial_window
                    self._initial_window = value
            self.output += _frame(4, 1, 0)
        elif kind == 6 and not flags & 1 and len(body) == 8:  # PING
            self.output += _frame(6, 1, 0, body)
        elif kind == 8 and len(body) == 4:  # WINDOW_UPDATE
            size = struct.unpack(">I", body)[0] & 0x7fffffff
            if stream == 0:
                self.window += size
            else:
                self.stream_window += size
        # RST_STREAM, GOAWAY, or the end of the stream
        if kind in (3, 7) or (kind in (0, 1) and flags & 1):
            self.is_over = True

    def _take_messages(self, messages):
        at = 0
        while len(self._message) - at >= 5:
            is_compressed, length = struct.unpack_from(">BI", self._message, at)
            if is_compressed or length > _MAX_MESSAGE:
                raise _Lost("a message is too large")
            if len(self._message) - at - 5 < length:
                break
            messages.append(bytes(self._message[at + 5:at + 5 + length]))
            at += 5 + length
        del self._message[:at]


# MARK: Sockets, by descriptor

# Options that the socket module of some Python lacks.
_SO_MARK, _SO_PROTOCOL, _SO_COOKIE, _SO_BINDTOIFINDEX = 36, 38, 57, 62
_TCP_RTO_MAX_MS = 44  # since Linux 6.15
# IP_FREEBIND, IP_TRANSPARENT, IPV6_FREEBIND and IPV6_TRANSPARENT: the socket may have an address of
# another machine.
_FOREIGN = [(0, 15), (0, 19), (41, 78), (41, 75)]
_TCP = socket.IPPROTO_TCP
_libc = ctypes.CDLL(None, use_errno=True)


def _read(call, fd, *arguments, size=128):
    data, length = ctypes.create_string_buffer(size), ctypes.c_uint32(size)
    if call(fd, *arguments, data, ctypes.byref(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return data.raw[:length.value]


def _option(fd, level, name, otherwise=0):
    try:
        return int.from_bytes(_read(_libc.getsockopt, fd, level, name), sys.byteorder)
    except OSError:
        return otherwise


def _set(fd, level, name, value):
    return _libc.setsockopt(fd, level, name, ctypes.byref(ctypes.c_int(value)), 4) == 0


def _address(data):
    """Returns the address, port and scope in a struct sockaddr, or None if it is not an IP address."""
    family = int.from_bytes(data[:2], sys.byteorder)
    port = int.from_bytes(data[2:4], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(family, data[4:8]), port, 0
    if family == socket.AF_INET6:
        text = socket.inet_ntop(family, data[8:24])
        return text.removeprefix("::ffff:") if "." in text else text, port, int.from_bytes(data[24:28], sys.byteorder)
    return None


def _is_loopback(address):
    return address == "::1" or ("." in address and address.startswith("127."))


class _Flow:
    """A guarded connection. `cookie` distinguishes its socket from a later one with the same
    descriptor."""

    max_trial_age = 5.0  # seconds; an older connection may have died, so it shows nothing about connd

    def __init__(self, fd, is_new, ends, on_event, shortens_outages):
        self.fd, self.is_new, self.ends, self.on_event = fd, is_new, ends, on_event
        self.made = time.monotonic()
        self.outages = _OutageOptions(shortens_outages)
        remote, local = _address(_read(_libc.getpeername, fd)), _address(_read(_libc.getsockname, fd))
        self.cookie = _option(fd, socket.SOL_SOCKET, _SO_COOKIE)
        if (not remote or not local or not self.cookie
                or _option(fd, socket.SOL_SOCKET, _SO_PROTOCOL) != _TCP
                or any(_option(fd, *option) for option in _FOREIGN)):
            raise ValueError("only TCP connections with an address of this machine can be guarded")
        self.destination = remote[:2]
        self.needs_guard = remote[0] != local[0] and not _is_loopback(remote[0])
        try:
            link = _read(_libc.getsockopt, fd, socket.SOL_SOCKET, socket.SO_BINDTODEVICE).rstrip(b"\0")
            link = link or (socket.if_indextoname(remote[2]).encode() if remote[2] else b"")
        except OSError:
            link = b""
        # Flow of connectivity.proto. FLOW_QUESTION_KEEPALIVE is 1.
        self._fields = (_field(2, remote[0]) + _field(3, local[0])
                        + _field(4, _option(fd, socket.SOL_SOCKET, _SO_MARK) or None) + _field(5, link or None)
                        + _field(10, local[1]) + _field(11, remote[1]) + _field(12, _TCP) + _field(13, 1))
        self.link = 0  # the index of the link of its first path
        self.progress = "unreported"
        self.is_sent = self.is_answered = False
        self.known_path = None  # the last path, as connd sent it
        self.probe = None
        self.id = 0

    @property
    def is_open(self):
        return _option(self.fd, socket.SOL_SOCKET, _SO_COOKIE) == self.cookie

    @contextlib.contextmanager
    def held(self):
        """Yields a descriptor of our own for the socket, or None if the program has closed its own.
        The program may close it at any time, and its number may then be another socket's."""
        try:
            fd = fcntl.fcntl(self.fd, fcntl.F_DUPFD_CLOEXEC, 0)
        except OSError:
            yield None
            return
        try:
            yield fd if _option(fd, socket.SOL_SOCKET, _SO_COOKIE) == self.cookie else None
        finally:
            os.close(fd)

    def addition(self, generation):
        if time.monotonic() - self.made > self.max_trial_age:
            self.is_new = False
        since = generation if self.is_answered else None
        is_existing = not self.is_new or self.progress == "reported"
        flow = (_field(1, self.id) + self._fields + _field(6, since) + _field(7, self.known_path)
                + _field(14, 1 if is_existing else None))
        return _field(1, flow)

    def keep_path(self, path):
        """Keeps the path for a connd that restarts."""
        fields = _decode(path)
        if not self.link and 4 in fields:
            self.link = _decode(fields[4]).get(2, 0)
        self.known_path = path if len(path) <= 4096 else None
        self.is_answered = True

    def end(self):
        """Ends the connection, like a reset by the peer. Without disconnecting, a reader would take
        a cut response for a complete one. Without shutdown(2), a program that polls only for input
        would spin."""
        with self.held() as fd:
            if fd is None:
                return
            # The reset leaves by the link of the connection or not at all: on another link, its
            # source address would be wrong.
            if not self.link or not _set(fd, socket.SOL_SOCKET, _SO_BINDTOIFINDEX, self.link):
                _set(fd, socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
            # Kernel TLS does not support it (EOPNOTSUPP), nor do kernels of 2023 while a thread
            # waits (EBUSY). shutdown(2) suffices then.
            _libc.connect(fd, bytes(16), 16)  # AF_UNSPEC
            _libc.shutdown(fd, socket.SHUT_RDWR)


class _OutageOptions:
    """The options by which an outage ends soon after the path is back (C11). Alone, the second would
    end the connection after 28 s."""

    user_timeout, max_wait = 924600, 2000  # how long the kernel retransmits by default, and the wait; in ms
    raised_timeout = 0x7fffffff  # during a probe

    def __init__(self, is_enabled):
        self.is_enabled = is_enabled
        self.former_wait = 0  # TCP_RTO_MAX_MS before, or 0 if the options are not set

    def set(self, flow):
        """Sets them, unless the program has a timeout or keepalive of its own."""
        with flow.held() if self.is_enabled and not self.former_wait else contextlib.nullcontext() as fd:
            former = _option(fd, _TCP, _TCP_RTO_MAX_MS) if fd is not None else 0
            if (former > self.max_wait and not _option(fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    and not _option(fd, _TCP, socket.TCP_USER_TIMEOUT, 1)
                    and _set(fd, _TCP, socket.TCP_USER_TIMEOUT, self.user_timeout)):
                if _set(fd, _TCP, _TCP_RTO_MAX_MS, self.max_wait):
                    self.former_wait = former
                else:
                    _set(fd, _TCP, socket.TCP_USER_TIMEOUT, 0)

    def restore(self, flow):
        """Restores what was before, unless the program has changed it."""
        former, self.former_wait = self.former_wait, 0
        with flow.held() if former else contextlib.nullcontext() as fd:
            if fd is None:
                return
            if _option(fd, _TCP, _TCP_RTO_MAX_MS) == self.max_wait:
                _set(fd, _TCP, _TCP_RTO_MAX_MS, former)
            if _option(fd, _TCP, socket.TCP_USER_TIMEOUT) in (self.user_timeout, self.raised_timeout):
                _set(fd, _TCP, socket.TCP_USER_TIMEOUT, 0)


class _Probe:
    """Asks the peer of a connection by a keepalive probe (E4)."""

    steps = (0.08, 0.6, 1.5)  # when it is repeated, and when the options are restored

    def __init__(self, flow):
        self.flow, self.step = flow, 0
        self.is_possible = False
        with flow.held() as fd:
            if fd is not None:
                self.begin(fd)

    def begin(self, fd):
        self.was_on = _option(fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        self.idle_time = _option(fd, _TCP, socket.TCP_KEEPIDLE)
        timeout = _option(fd, _TCP, socket.TCP_USER_TIMEOUT)
        # The timeout of C11 must not end the connection because of the probe. With a timeout, the
        # number of probes does not count.
        self.raises_timeout = timeout == _OutageOptions.user_timeout and not self.was_on
        has_timeout = timeout != 0 and not self.raises_timeout
        try:
            unanswered = _read(_libc.getsockopt, fd, _TCP, socket.TCP_INFO, size=4)[3]
        except OSError:
            unanswered = 0
        # With an interval of one second, a second probe follows before the options are restored.
        interval = _option(fd, _TCP, socket.TCP_KEEPINTVL, 1)
        left = _option(fd, _TCP, socket.TCP_KEEPCNT) - 1 - unanswered - (1 if interval > 1 else 2)
        if self.raises_timeout:
            left = sys.maxsize
        # The probe must not end the connection.
        self.is_possible = (1 <= self.idle_time <= 32767 and left >= 0
                            and not (has_timeout and (self.was_on or unanswered)))
        # connd may ask twice more before it gives the connection up (E2).
        self.left = 0 if has_timeout else left - 2
        if not self.is_possible:
            return
        self.start = time.monotonic()
        if self.raises_timeout:
            _set(fd, _TCP, socket.TCP_USER_TIMEOUT, _OutageOptions.raised_timeout)
        # The order matters: only the second option restarts the timer with the elapsed idle time.
        _set(fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _set(fd, _TCP, socket.TCP_KEEPIDLE, 1)

    @property
    def due(self):
        return self.start + self.steps[self.step]

    def advance(self):
        """Repeats the probe. Returns whether it goes on."""
        self.step += 1
        if self.step == len(self.steps):
            self.end()
            return False
        if self.left > 0:
            self.left -= 1
            with self.flow.held() as fd:
                if fd is not None:
                    _set(fd, _TCP, socket.TCP_KEEPIDLE, 1)
        return True

    def end(self):
        """Restores the options. Keepalive is off meanwhile, so that no probe is due immediately."""
        with self.flow.held() as fd:
            if fd is None:
                return
            _set(fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
            _set(fd, _TCP, socket.TCP_KEEPIDLE, self.idle_time)
            if (self.raises_timeout
                    and _option(fd, _TCP, socket.TCP_USER_TIMEOUT) == _OutageOptions.raised_timeout):
                _set(fd, _TCP, socket.TCP_USER_TIMEOUT, _OutageOptions.user_timeout)
            if self.was_on:
                _set(fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class _Breakers:
    """Counts wrong rejections of new connections, by destination (I11)."""

    limit, min_rest, max_rest, max_count = 3, 5 * 60.0, 60 * 60.0, 256
    life = 60 * 60.0  # how long a refutation counts, or after the rest of an open breaker

    def __init__(self):
        self._entries = {}  # destination: refutations, rest, its end, last change; the oldest first

    def allows(self, destination):
        return time.monotonic() >= self._entries.get(destination, (0, 0, 0, 0))[2]

    def refuted(self, destination):
        """Returns for how long new connections are not guarded, if this opens the breaker."""
        refutations, rest, end, last = self._entries.pop(destination, (0, 0, 0, 0))
        now, opens = time.monotonic(), False
        if now > max(last, end) + self.life:
            refutations = rest = end = 0
        if not rest and refutations + 1 < self.limit:
            refutations += 1
        elif now >= end:
            rest = min(rest * 2, self.max_rest) if rest else self.min_rest
            end, opens = now + rest, True
        self._entries[destination] = (refutations, rest, end, now)
        if len(self._entries) > self.max_count:
            del self._entries[next(iter(self._entries))]
        return rest if opens else None

    def confirmed(self, destination):
        if self.allows(destination):
            self._entries.pop(destination, None)


# MARK: Guarding

_REASONS = {1: "sourceAddressLost", 2: "interfaceLost", 3: "networkChanged", 4: "categoryChanged",
            5: "betterPath", 6: "policy", 7: "resumed", 8: "silent"}
_LOSSES = range(1, 4)  # of the address, link or network
_SURVIVABLE = range(4, 9)  # reasons that may end a connection that works
_POLICY, _UNKNOWN = 6, 4  # a reason of a newer connd counts as categoryChanged
_SEVERITIES = {1: "destroy", 2: "drain"}
_SATISFIED, _DOUBTFUL = 1, (2, 3)  # PathStatus; REQUIRES_CONNECTION and UNSATISFIED


class Event(NamedTuple):
    """A report about a guarded connection."""

    fd: int
    #: `path`: guarded. `destroy`: the connection is dead, and was ended. `drain`, `advise`: use it
    #: no longer, or doubt it. `refused`: the connection is not guarded, because connd refused it,
    #: or too many are guarded. `suspended`: connd wrongly rejected three connections in a row, so
    #: that new ones to this destination, such as this one, are not guarded.
    kind: str
    #: As in connctl's JSON, such as `interfaceLost`, or None.
    reason: Optional[str] = None
    #: Whether the path carries traffic, or None if connd did not report a path.
    is_satisfied: Optional[bool] = None
    #: The kernel's number of the socket (`SO_COOKIE`). It is never used again, but once the program
    #: has closed the connection, another may have its descriptor.
    cookie: int = 0


class _Agent:
    """Guards the connections of this process, in its own thread."""

    max_flows = 16384  # limits.flowsPerStream of connd.yaml
    min_pause, max_pause = 1.0, 60.0

    def __init__(self):
        self.lock = threading.RLock()
        self.flows = {}  # by descriptor
        self.unsent, self.removed = {}, []  # flows by id, and ids, that connd must hear of
        self.connecting = {}  # the cookies of sockets that connect, by descriptor
        self.events = []  # callbacks and their events, for the thread
        self.breakers, self.probes = _Breakers(), {}
        self.serial = 0
        self.call = None
        self.generation = None
        self.pause, self.retry = self.min_pause, 0.0
        self.epoll, self.wake = None, None

    # Called by any thread

    def guard(self, flow):
        with self.lock:
            self.release(flow.fd)
            try:
                self.start()
            except OSError as error:
                return _log.warning("connections are not guarded: %s", error)
            # An error of connd must not end a request of the program (I11).
            if flow.is_new and not self.breakers.allows(flow.destination):
                return self.reject(flow, "suspended")
            if len(self.flows) >= self.max_flows:
                return self.reject(flow, "refused")
            self.serial += 1
            flow.id = self.serial << 32 | flow.fd
            self.flows[flow.fd] = self.unsent[flow.id] = flow

    def reject(self, flow, kind):
        """Reports that a connection is not guarded."""
        event = Event(flow.fd, kind, cookie=flow.cookie)
        _log.debug("%s", event)
        if flow.on_event:
            self.events.append((flow.on_event, event))

    def release(self, fd, cookie=None):
        with self.lock:
            flow = self.flows.get(fd)
            if flow and cookie in (None, flow.cookie):
                self.remove(flow)
                self.notify()

    def await_connection(self, fd):
        """Guards a socket once it is connected. One that connects is not guarded: it has proved
        nothing yet."""
        with self.lock:
            try:
                self.start()
                self.connecting[fd] = _option(fd, socket.SOL_SOCKET, _SO_COOKIE)
                try:
                    self.epoll.register(fd, select.EPOLLOUT | select.EPOLLONESHOT)
                except FileExistsError:
                    self.epoll.modify(fd, select.EPOLLOUT | select.EPOLLONESHOT)
            except OSError as error:
                self.connecting.pop(fd, None)
                _log.warning("descriptor %d is not guarded: %s", fd, error)

    def start(self):
        """Starts the thread, or wakes it. Raises OSError. The thread goes on when the caller
        releases the lock."""
        if self.wake is None:
            with contextlib.ExitStack() as opened:
                epoll = opened.enter_context(select.epoll())
                wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                for end in wake:
                    opened.callback(os.close, end)
                epoll.register(wake[0], select.EPOLLIN)
                try:
                    threading.Thread(target=self.run, name="connd", daemon=True).start()
                except RuntimeError as error:
                    raise OSError(errno.EAGAIN, str(error)) from None
                opened.pop_all()
            self.wake, self.epoll = wake, epoll
        self.notify()

    def notify(self):
        try:
            if self.wake:
                os.write(self.wake[1], b"\0")
        except BlockingIOError:
            pass  # It is awake.

    def forget(self):
        """Closes what a child has inherited by fork. The parent goes on with its own."""
        if self.call:
            self.call.close()
        if self.wake:
            self.epoll.close()
            os.close(self.wake[0])
            os.close(self.wake[1])

    def remove(self, flow, is_guarded=True):
        self.end_probe(flow)
        flow.outages.restore(flow)
        if self.flows.get(flow.fd) is flow:
            del self.flows[flow.fd]
        self.unsent.pop(flow.id, None)
        if is_guarded and flow.is_sent and self.call:
            self.removed.append(flow.id)

    def end_probe(self, flow):
        if self.probes.pop(flow.fd, None):
            flow.probe.end()
        flow.probe = None

    # The thread

    def run(self):
        while True:
            with self.lock:
                timeout = self.prepare()
                epoll = self.epoll
            ready = epoll.poll(timeout)
            with self.lock:
                events = []
                for fd, _ in ready:
                    if fd == self.wake[0]:
                        os.read(fd, 4096)
                    elif self.call and fd == self.call.fileno():
                        self.read(events)
                    else:
                        self.connected(fd)
                events, self.events = self.events + events, []
            for callback, event in events:
                try:
                    callback(event)
                except Exception:
                    _log.exception("the callback of a guarded connection has failed")

    def prepare(self):
        """Does what is due. Returns the time until more is due, or None."""
        now, next_due = time.monotonic(), []
        for flow in [probe.flow for probe in self.probes.values() if probe.due <= now]:
            if not flow.probe.advance():
                del self.probes[flow.fd]
                flow.probe = None
        next_due += [probe.due for probe in self.probes.values()]
        if self.flows and not self.call and now >= self.retry:
            self.open()
        if self.call:
            try:
                self.send()
            except OSError as error:
                self.lost(error)
        if self.flows and not self.call:
            next_due.append(self.retry)
        return max(0.0, min(next_due) - time.monotonic()) if next_due else None

    def open(self):
        try:
            self.call = _Call("Guard")
            self.epoll.register(self.call, select.EPOLLIN)
            self.namespace = _namespace()
        except OSError as error:
            self.lost(error)

    def send(self):
        # Removals first, because they make room.
        while self.removed and self.call.send(_field(2, _field(1, self.removed[-1]))):
            self.removed.pop()
        for flow in list(self.unsent.values()) if not self.removed else ():
            if not self.call.send(flow.addition(self.generation)):
                break
            flow.is_sent = True
            del self.unsent[flow.id]
        self.call.flush()
        self.epoll.modify(self.call, select.EPOLLIN | (select.EPOLLOUT if self.call.output else 0))

    def lost(self, error):
        """Forgets the connection to connd, and has the flows sent again."""
        _log.debug("connections are not guarded: %s", error)
        if self.call:
            try:
                # A child may still have the connection.
                self.epoll.unregister(self.call)
            except OSError:
                pass
            self.call.close()
        self.call, self.removed = None, []
        self.unsent = {flow.id: flow for flow in self.flows.values()}
        for flow in self.flows.values():
            flow.is_sent = False
            flow.outages.restore(flow)
        self.retry = time.monotonic() + self.pause
        self.pause = min(self.pause * 2, self.max_pause)

    def read(self, events):
        try:
            for message in self.call.receive():
                self.received(_decode(message), events)
            if self.call.is_over:
                raise _Lost("connd has ended the call")
        except Exception as error:  # Whatever connd sends, the thread goes on.
            self.lost(error)

    def received(self, message, events):
        if message.get(7, 0) not in (0, self.namespace):
            self.pause = self.max_pause
            raise _Lost("connd speaks for another network namespace")
        self.pause = self.min_pause
        self.generation = message.get(1, 0)
        flow = self.flows.get(message.get(2, 0) & 0xffffffff)
        if not flow or flow.id != message[2] or not flow.is_sent:
            return
        if not flow.is_open:
            return self.remove(flow)
        invalidation = _decode(message[4]) if 4 in message else {}
        path = message.get(3, message.get(6, invalidation.get(4)))
        status = _decode(path).get(1) if path is not None else None
        reason = invalidation.get(1)
        if reason is not None and reason not in _REASONS:
            reason = _UNKNOWN
        if 3 in message or 6 in message:
            kind = "path"
            flow.keep_path(path)
        elif 4 in message:
            kind = _SEVERITIES.get(invalidation.get(2), "advise")  # An unknown severity is advice.
        elif 5 in message:
            kind = "refused"
        else:
            return
        if kind == "path" and status == _SATISFIED:
            flow.outages.set(flow)
        elif (path is not None and status != _SATISFIED) or reason in _LOSSES:
            flow.outages.restore(flow)
        if 8 in message and kind != "destroy" and not flow.probe:
            probe = _Probe(flow)
            if probe.is_possible:
                flow.probe = self.probes[flow.fd] = probe
        self.report(flow, kind, reason, status, events)

    def report(self, flow, kind, reason, status, events):
        """Counts wrong rejections, ends the connection, and tells the program."""
        rest = None
        if flow.is_new and flow.progress != "reported":
            if kind == "path" and status == _SATISFIED:
                self.breakers.confirmed(flow.destination)
            is_outcome = flow.progress == "doubted" and reason in _SURVIVABLE
            if kind == "destroy" and reason != _POLICY and not is_outcome:
                rest = self.breakers.refuted(flow.destination)
        if flow.progress == "unreported":
            flow.progress = "doubted" if flow.is_new and status in _DOUBTFUL else "reported"
        elif status == _SATISFIED:
            flow.progress = "reported"
        if kind in ("destroy", "refused"):
            self.remove(flow, is_guarded=False)
        if kind == "destroy" and flow.ends:
            flow.end()
        event = Event(flow.fd, kind, _REASONS.get(reason), None if status is None else status == _SATISFIED,
                      flow.cookie)
        _log.debug("%s", event)
        if flow.on_event:
            events.append((flow.on_event, event))
        if rest:
            _log.warning("connd wrongly rejects new connections to %s port %d (%s)."
                         " They are not guarded for %d minutes.", *flow.destination, event.reason, rest / 60)
            if flow.on_event:
                events.append((flow.on_event, event._replace(kind="suspended", is_satisfied=None)))

    def connected(self, fd):
        """A socket that was connecting is connected, or has failed."""
        cookie = self.connecting.pop(fd, None)
        try:
            self.epoll.unregister(fd)
        except OSError:
            pass
        if cookie and _option(fd, socket.SOL_SOCKET, _SO_COOKIE) == cookie:
            _guard_new(fd)


def _namespace():
    try:
        return os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return 0


_agent = _Agent()


def _after_fork():
    global _agent
    _agent.forget()
    _agent = _Agent()


os.register_at_fork(after_in_child=_after_fork)


class Guard:
    """Guards a connection until `release`, or the end of the connection."""

    def __init__(self, fd, cookie):
        self._fd, self._cookie = fd, cookie

    def release(self):
        """Stops guarding. Afterwards the descriptor is not touched. Call it before closing the
        socket. If it is forgotten, a socket that later has the same descriptor is still not
        touched."""
        _agent.release(self._fd, self._cookie)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def guard(connection, *, is_new=False, ends=True, on_event=None, shortens_outages=False):
    """Guards a connected TCP socket, or an object with one: an asyncio.StreamWriter, a transport, a
    descriptor. Returns a `Guard`.

    `is_new` says that the connection was made a moment ago, so that it works. If connd rejects
    three such connections to one destination in a row, new ones to it are not guarded for a while
    (I11). An older connection may have died before, which is not an error of connd. With
    `ends=False` the guard only reports. `on_event` receives each `Event` in connd's thread; with
    asyncio, use `loop.call_soon_threadsafe`. With `shortens_outages`, TCP retransmits at least
    every two seconds while connd reports a satisfied path, so that an outage ends soon after the
    path is back (C11, Linux 6.15). It is only for a peer that reads what it gets: if it stops
    reading for 15 minutes, the kernel ends the connection.

    Raises ValueError for a socket that cannot be guarded: not TCP, or Multipath TCP, and OSError for
    one that is not connected. A loopback connection needs no guard, which is not an error. If the
    connection is not guarded because connd was wrong, or because too many are, `on_event` receives
    `suspended` or `refused`.
    """
    if hasattr(connection, "get_extra_info"):
        connection = connection.get_extra_info("socket")
    fd = connection if isinstance(connection, int) else connection.fileno()
    flow = _Flow(fd, is_new, ends, on_event, shortens_outages)
    if flow.needs_guard:
        _agent.guard(flow)
    return Guard(fd, flow.cookie)


_on_event, _shortens_outages = None, False


def _guard_new(fd):
    try:
        guard(fd, is_new=True, on_event=_on_event, shortens_outages=_shortens_outages)
    except (OSError, ValueError) as error:
        _log.debug("descriptor %d is not guarded: %s", fd, error)


def install(on_event=None, *, shortens_outages=False):
    """Guards each TCP connection that the program makes from now on with Python's sockets.

    Connections of libraries in C, such as libpq and libcurl, need `guard` with their descriptor.
    """
    global _on_event, _shortens_outages
    _on_event, _shortens_outages = on_event, shortens_outages
    if getattr(socket.socket.connect, "_is_connd", False):
        return
    real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex

    def is_tcp(sock):
        return sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM

    def connect(self, address):
        try:
            real_connect(self, address)
        except BlockingIOError:
            if is_tcp(self):
                _agent.await_connection(self.fileno())
            raise
        if is_tcp(self):
            _guard_new(self.fileno())

    def connect_ex(self, address):
        result = real_connect_ex(self, address)
        if is_tcp(self):
            if result == 0:
                _guard_new(self.fileno())
            elif result == errno.EINPROGRESS:
                _agent.await_connection(self.fileno())
        return result

    connect._is_connd = True
    socket.socket.connect, socket.socket.connect_ex = connect, connect_ex


# MARK: The state of the network

_CATEGORIES = {1: "none", 2: "wifi", 3: "cellular", 4: "wired", 5: "other"}


class Status(NamedTuple):
    """The state of the network, in the words of connctl's JSON."""

    generation: int
    category: str
    interface: Optional[str]
    expensive: Optional[bool]
    constrained: bool

    @classmethod
    def _decoded(cls, data):
        fields = _decode(data)
        if fields.get(13, 0) not in (0, _namespace()):
            raise _Lost("connd speaks for another network namespace")
        interface = fields[6].decode(errors="replace") if 6 in fields else None
        expensive = bool(fields[8]) if 8 in fields else None
        category = _CATEGORIES.get(fields.get(2), "unknown")
        return cls(fields.get(1, 0), category, interface, expensive, bool(fields.get(9, 0)))


def status(timeout=1.0):
    """Returns the `Status`. Raises OSError if connd is not running, or is in another network namespace."""
    end, call = time.monotonic() + timeout, _Call("GetStatus", b"")
    try:
        while not call.is_over:
            if not select.select([call], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("connd does not answer")
            for message in call.receive():
                return Status._decoded(message)
        raise _Lost("connd has ended the call")
    finally:
        call.close()


def watch():
    """Yields the `Status` now and after each change, and None while connd is not running, or is elsewhere."""
    for step in _watch_steps():
        if isinstance(step, tuple):
            yield step[0]
        elif isinstance(step, _Call):
            select.select([step], [], [])
        else:
            time.sleep(step)


async def watch_async():
    """Yields what `watch` yields, in an event loop."""
    loop = asyncio.get_running_loop()
    for step in _watch_steps():
        if isinstance(step, tuple):
            yield step[0]
        elif isinstance(step, _Call):
            readable = loop.create_future()
            loop.add_reader(step, lambda: readable.done() or readable.set_result(None))
            try:
                await readable
            finally:
                loop.remove_reader(step)
        else:
            await asyncio.sleep(step)


def _watch_steps():
    """Yields each status in a tuple, and else what to wait for: input of a call, or seconds."""
    is_absent, pause, call = False, _Agent.min_pause, None
    while True:
        try:
            call = _Call("Watch", b"")
            while not call.is_over:
                yield call
                for message in call.receive():
                    status = _event_status(message)
                    is_absent, pause = False, _Agent.min_pause
                    if status is not None:
                        yield (status,)
        except OSError as error:
            _log.debug("connd: %s", error)
        finally:
            if call:
                call.close()
        if not is_absent:
            is_absent = True
            yield (None,)
        yield pause
        pause = min(pause * 2, _Agent.max_pause)


def _event_status(message):
    """Returns the status in an event of Watch, or None if it has none."""
    fields = _decode(message)
    # Snapshot, Transition, PathChange and Gap, and the number of their status.
    for event, number in ((2, 2), (3, 6), (4, 2), (6, 2)):
        if event in fields:
            return Status._decoded(_decode(fields[event]).get(number, b""))
    return None


def _main():
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    if is_module:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        sys.exit("usage: python -m connd SCRIPT [ARGUMENTS]\n       python -m connd -m MODULE [ARGUMENTS]")
    install()
    sys.argv = arguments
    if is_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    # The program that runs may import connd, and must find the same module.
    import connd
    connd._main()
