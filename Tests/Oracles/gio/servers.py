"""Servers in connd's place, which are wrong in one way each."""

import os
import select
import signal
import socket
import struct

DEADLINE = 30  # seconds: limits a hang
SOCKET = "/run/gio/hostile.sock"
DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8


def frame(kind, flags, stream, payload=b"", length=None):
    length = len(payload) if length is None else length
    return length.to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def number(value):
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def field(tag, value):
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    return number(tag << 3 | 2) + number(len(value)) + value


def message(payload, length=None):
    return struct.pack(">BI", 0, len(payload) if length is None else length) + payload


def snapshot(category=4, namespace=0, validation=0, metered=0, family=1):
    """A WatchResponse. Only the path of the family has the validation."""
    paths = field(9 + family, field(1, 1) + field(14, field(1, validation))) + field(12 - family, field(1, 3))
    status = field(2, category) + field(8, metered) + paths + field(12, family) + field(13, namespace)
    return field(1, 1) + field(2, field(1, 1) + field(2, status))


def data(response):
    return frame(DATA, 0, 1, message(response))


GREETING = frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"\x88")
SNAPSHOT = snapshot()
VALID = GREETING + data(SNAPSHOT)


def sends(*parts):
    """A server that sends these bytes, and then waits until the client leaves."""
    def serve(connection):
        for part in parts:
            connection.sendall(part)
        while connection.recv(1 << 16):
            pass
    return serve


def floods(part, before=b""):
    def serve(connection):
        connection.sendall(before)
        while True:
            connection.sendall(part)
    return serve


def message_in_frames(response):
    parts = message(response)
    return b"".join(frame(DATA, 0, 1, parts[at:at + 16_000]) for at in range(0, len(parts), 16_000))


def minds_the_window(connection):
    """A server that sends a window's worth of bytes, and continues when it may send more."""
    sent, windows = message_in_frames(SNAPSHOT + field(99, bytes(40_000))), {0: 0, 1: 0}
    connection.sendall(GREETING + sent)
    connection.recv(24)  # The preface.
    while min(windows.values()) < len(sent) - 16_000:
        head = connection.recv(9, socket.MSG_WAITALL)
        length = int.from_bytes(head[:3], "big")
        payload = connection.recv(length, socket.MSG_WAITALL) if length else b""
        if head[3] == WINDOW_UPDATE:
            windows[int.from_bytes(head[5:], "big")] += int.from_bytes(payload, "big")
    sends(data(snapshot(1)))(connection)


def then(part, is_endless=False):
    """A server that sends a status, and these bytes when the client has read it, once or endlessly."""
    def serve(connection):
        connection.sendall(VALID + frame(PING, 0, 0, bytes(8)))
        data = b""
        while frame(PING, ACK, 0, bytes(8)) not in data:
            data += connection.recv(1 << 16)
        connection.sendall(part)
        while is_endless:
            connection.sendall(part)
        while connection.recv(1 << 16):
            pass
    return serve


# These have not sent a status, so GLib must take its own monitor.
BEFORE_A_STATUS = {
    "silence": sends(b""),
    "no HTTP/2": sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "zeros": sends(bytes(100_000)),
    "a frame of 16 MB": sends(frame(DATA, 0, 1, b"x" * 50_000, length=0xFFFFFF)),
    "a message of 4 GB": sends(GREETING + frame(DATA, 0, 1, message(b"x" * 1000, length=0xFFFFFFFF))),
    "a message without an end": floods(
        frame(DATA, 0, 1, b"x" * 16_000), GREETING + frame(DATA, 0, 1, message(b"", length=256 << 10))),
    "a message of 300 kB": sends(GREETING + message_in_frames(field(99, bytes(300_000)) + SNAPSHOT)),
    "compression": sends(GREETING + frame(DATA, 0, 1, b"\x01" + message(SNAPSHOT)[1:])),
    "padding beyond the frame": sends(GREETING + frame(DATA, PADDED, 1, b"\xff" + message(SNAPSHOT))),
    "no protobuf": sends(GREETING + data(b"\x0b\xff\xff")),
    "a length beyond the message": sends(GREETING + data(b"\x12\xff\xff\xff\xff\x0f")),
    "a refusal": sends(frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88")),
    "a reset": sends(GREETING + frame(RESET, 0, 1, bytes(4))),
    "the end": sends(frame(GOAWAY, 0, 0, bytes(8))),
    "a push": sends(frame(PUSH, END_HEADERS, 1, bytes(4))),
    "a window of too much": sends(frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")),
    "headers without an end": floods(frame(CONTINUATION, 0, 1, b"x" * 1000), frame(HEADERS, 0, 1, b"\x88")),
    "data of other calls": floods(frame(DATA, 0, 9, b"x" * 1000), GREETING),
    "pings without an end": floods(frame(PING, 0, 0, bytes(8)) * 100),
    "settings without an end": floods(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) * 100),
    "another namespace": sends(GREETING + data(snapshot(namespace=1))),
}

# These are wrong after a status, which must hold. The client leaves them.
AFTER_A_STATUS = {
    "garbage": then(b"x" * 1000),
    "no protobuf": then(data(b"\x0b")),
    "the end of the call": then(frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\x88")),
    "the end": then(frame(GOAWAY, 0, 0, bytes(8))),
    "pings without an end": then(frame(PING, 0, 0, bytes(8)) * 100, is_endless=True),
    "another namespace": then(data(snapshot(category=1, namespace=1))),
}

# These are allowed, and mean this status.
VALID_STATUS = {
    "silence": (sends(VALID), "online free 4"),
    "padding": (sends(GREETING + frame(DATA, PADDED, 1, b"\x02" + message(SNAPSHOT) + bytes(2))), "online free 4"),
    "a byte at a time": (sends(
        GREETING, *(frame(DATA, 0, 1, bytes([byte])) for byte in message(SNAPSHOT))), "online free 4"),
    "unknown frames and fields": (sends(frame(0xFA, 0xFF, 7, b"x" * 99) + GREETING + data(
        field(99, b"x") + SNAPSHOT + field(98, 5))), "online free 4"),
    "no path": (sends(GREETING + data(snapshot(1, metered=1))), "offline free 1"),
    "an unknown kernel": (sends(GREETING + data(snapshot(6))), "online free 4"),
    "a metered path": (sends(GREETING + data(snapshot(metered=1))), "online metered 4"),
    "no internet": (sends(GREETING + data(snapshot(validation=3))), "online free 2"),
    "a captive portal, by IPv6": (sends(GREETING + data(snapshot(validation=2, family=2))), "online free 3"),
    "a checked internet": (sends(GREETING + data(snapshot(validation=4))), "online free 4"),
}


class Server:
    """A process that serves each connection in this way, as a user."""

    def __init__(self, serve, user=0, path=SOCKET):
        if os.path.exists(path):
            os.remove(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o666)
        self.news, news = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.setuid(user)
            # The kernel remembers the user that calls listen(2).
            listener.listen()
            while True:
                os.write(news, b".")
                connection, _ = listener.accept()
                try:
                    serve(connection)
                except OSError:
                    pass
                connection.close()
        os.close(news)
        listener.close()
        self.await_turn()

    def await_turn(self):
        """Waits until it accepts the first connection, and then until a client has left."""
        if not select.select([self.news], [], [], DEADLINE)[0] or not os.read(self.news, 1):
            raise AssertionError("no client has left the server")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.news)
