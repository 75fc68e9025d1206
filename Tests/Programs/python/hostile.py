#!/usr/bin/env python3
"""Hostile clients, which must not harm connd.

    hostile.py SOCKET ATTACK

Runs one of the functions below against the connd on the Unix socket. Each prints how its
connections end, one or two words a line: "goaway 11" (the error code, RFC 9113, 7), "reset 8",
"closed", or the name of a call's status. "held" means that the attack is at its worst and connd
will send no answer. Then the client waits to be killed, with everything open.

HTTP/2 is handwritten, because no library allows such misbehaviour. Valid calls are made with
grpcio.
"""

import os
import random
import signal
import socket as sockets
import struct
import sys

import grpc
import h2.config
import h2.connection
import h2.exceptions
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc
from connectivity.v1 import diagnostics_pb2, diagnostics_pb2_grpc

DEADLINE = 30  # seconds: limits a hang, nothing is measured
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
WATCH = "/connectivity.v1.Connectivity/Watch"
GUARD = "/connectivity.v1.Connectivity/Guard"
LIST_LINKS = "/connectivity.v1.Diagnostics/ListLinks"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header without compression (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def headers(path):
    return b"".join(
        literal(name, value)
        for name, value in [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers"),
        ]
    )


def message(payload=b"", length=None):
    return struct.pack(">BI", 0, len(payload) if length is None else length) + payload


class Connection:
    def __init__(self, path, settings=b"", greet=True):
        self.socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.settimeout(DEADLINE)
        self.next = 1
        if greet:
            # Also acknowledges connd's settings, after which its limits apply.
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings) + frame(SETTINGS, 1, 0))

    def send(self, data):
        """Sends the bytes. Returns whether connd still accepts them."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def call(self, path, payload=b""):
        """Returns the beginning of a call, and its stream."""
        stream, self.next = self.next, self.next + 2
        return frame(HEADERS, END_HEADERS, stream, headers(path)) + payload, stream

    def watch(self):
        begin, stream = self.call(WATCH)
        self.send(begin + frame(DATA, END_STREAM, stream, message()))
        return stream

    def receive(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data

    def frames(self):
        """Yields the frames up to the end of the connection."""
        try:
            while True:
                head = self.receive(9)
                length = int.from_bytes(head[:3], "big")
                yield head[3], head[4], int.from_bytes(head[5:], "big"), self.receive(length)
        except ConnectionResetError:
            return

    def fate(self):
        """Waits for the end of the connection or of one of its streams, and returns it in words."""
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                return f"goaway {int.from_bytes(payload[4:8], 'big')}"
            if kind == RESET:
                return f"reset {int.from_bytes(payload, 'big')}"
        return "closed"

    def await_frame(self, wanted):
        """Whether a frame of this type arrives before the connection ends."""
        return any(kind == wanted for kind, *_ in self.frames())


def say(text):
    print(text, flush=True)


def stay(*_):
    """Waits with everything open."""
    signal.pause()


def subscribers(path, count):
    """Connections that have subscribed and received their first message."""
    made = [Connection(path) for _ in range(count)]
    for connection in made:
        connection.watch()
    for connection in made:
        assert connection.await_frame(DATA)
    return made


def are_told_of_the_end(path, count=900):
    """Ordinary subscribers. When connd stops, prints how many of them have received a status."""
    made = subscribers(path, count)
    say("held")
    told = 0
    for connection in made:
        told += any(kind == HEADERS and flags & END_STREAM for kind, flags, *_ in connection.frames())
    say(f"told {told}")


def has_calls_when_connd_stops(path):
    """Makes more calls than connd can answer before the test stops it. Prints how many of them were
    answered, and how many ended because connd is stopping.
    """
    with grpc.insecure_channel(f"unix:{path}") as channel:
        connectivity, diagnostics = rpc.ConnectivityStub(channel), diagnostics_pb2_grpc.DiagnosticsStub(channel)
        unary = [
            call.future(request, timeout=DEADLINE)
            for call, request, count in [
                (diagnostics.ListLinks, diagnostics_pb2.ListLinksRequest(), 90),
                (diagnostics.ListConnections, diagnostics_pb2.ListConnectionsRequest(), 50),
                (diagnostics.Diagnose, diagnostics_pb2.DiagnoseRequest(), 10),
                (diagnostics.Explain, diagnostics_pb2.ExplainRequest(destination="203.0.113.9"), 50),
                (connectivity.GetPath, pb.GetPathRequest(destination="203.0.113.9"), 50),
            ]
            for _ in range(count)
        ]
        streams = [connectivity.Watch(pb.WatchRequest(), timeout=DEADLINE) for _ in range(20)]
        for stream in streams:
            next(stream)
        say("held")
        ends = [call.exception() for call in unary]
        for stream in streams:
            try:
                for _ in stream:
                    pass
            except grpc.RpcError as error:
                ends.append(error)
        # A call that gRPC had not sent yet finds no connd any more.
        reasons = ("connd is stopping", "failed to connect to all addresses")
        stopped = [end for end in ends if end and end.code() == grpc.StatusCode.UNAVAILABLE and end.details().startswith(reasons)]
        say(f"answered {ends.count(None)}, stopped {len(stopped)}, other {[end.details() for end in ends if end and end not in stopped]}")


def has_calls_as_another_person_when_connd_stops(path):
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)
    has_calls_when_connd_stops(path)


def have_long_deadlines(path):
    """Subscribers with a deadline of an hour that leave early, and calls that end early. SIGUSR1
    starts another round.
    """
    def connect():
        return grpc.insecure_channel(f"unix:{path}", [("grpc.use_local_subchannel_pool", 1)])

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    while True:
        for _ in range(200):
            with connect() as channel:
                next(rpc.ConnectivityStub(channel).Watch(pb.WatchRequest(), timeout=3600))
        with connect() as channel:
            for _ in range(5000):
                rpc.ConnectivityStub(channel).GetStatus(pb.GetStatusRequest(), timeout=3600)
        say("gone")
        signal.sigwait([signal.SIGUSR1])


# Subscribers that do not read


def are_stopped(path):
    """A hundred subscribers. The test stops the process after "held"."""
    made = subscribers(path, 100)
    say("held")
    stay(made)


def never_reads(path):
    connection = Connection(path, struct.pack(">HI", 4, 0x7FFFFFFF))  # SETTINGS_INITIAL_WINDOW_SIZE
    connection.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFF0000)))
    for _ in range(100):
        connection.watch()
    say("held")
    stay(connection)


def reads_byte_by_byte(path):
    """Reads a byte for each change that it receives on another connection."""
    slow = Connection(path, struct.pack(">HI", 4, 0x7FFFFFFF))
    for _ in range(100):
        slow.watch()
    with grpc.insecure_channel(f"unix:{path}") as channel:
        changes = rpc.ConnectivityStub(channel).Watch(pb.WatchRequest())
        next(changes)
        say("held")
        for _ in changes:
            slow.receive(1)


def is_stopped(path):
    """The test stops the process after "held", and continues it later. Then it must receive all
    missed changes in order, or a gap.
    """
    with grpc.insecure_channel(f"unix:{path}") as channel:
        changes = rpc.ConnectivityStub(channel).Watch(pb.WatchRequest())
        last = next(changes).generation
        say("held")
        for change in changes:
            assert change.WhichOneof("event") == "gap" or change.generation == last + 1, change
            last = change.generation
            say(f"generation {last}")


def vanishes(path):
    """Two hundred subscribers. The test kills the process."""
    made = subscribers(path, 200)
    say("held")
    stay(made)


# Clients that come and go


def opens_and_closes(path):
    for number in range(10_000):
        connection = Connection(path, greet=number % 2 == 1)
        if number % 4 == 3:
            connection.watch()
        connection.socket.close()
    say("held")


def cancels(path):
    """Rapid reset (CVE-2023-44487), repeatedly."""
    for _ in range(20):
        connection = Connection(path)
        for _ in range(1000):
            begin, stream = connection.call(WATCH)
            request = frame(DATA, END_STREAM, stream, message())
            if not connection.send(begin + request + frame(RESET, 0, stream, struct.pack(">I", 8))):
                break
        fate = connection.fate()
    say(fate)
    stay()


def dies_at_birth(path):
    """Begins a call, and breaks the protocol immediately."""
    for _ in range(1000):
        connection = Connection(path, greet=False)
        begin, stream = connection.call(WATCH)
        connection.send(
            PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
            + begin + frame(DATA, END_STREAM, stream, message()) + frame(DATA, 0, 0, b"x"))
        fate = connection.fate()
        connection.socket.close()
    say(fate)
    stay()


def asks_and_leaves(path):
    """Sends as many kernel queries as connd accepts, and disconnects before an answer; repeatedly."""
    for _ in range(20):
        connection = Connection(path)
        connection.socket.settimeout(0.2)
        try:
            for _ in range(1000):
                begin, stream = connection.call(LIST_LINKS)
                connection.send(begin + frame(DATA, END_STREAM, stream, message()))
        except TimeoutError:
            pass  # No answer comes while the earlier ones are unread.
        connection.socket.close()
    say("held")
    stay()


def comes_and_goes(path, times=300):
    """Subscribes and leaves."""
    for _ in range(times):
        connection = Connection(path)
        connection.watch()
        assert connection.await_frame(DATA)
        connection.socket.close()
    say("gone")
    stay()


def connects_without_end(path):
    """Connects and disconnects in four processes, until connd exits."""
    say("held")
    for _ in range(3):
        if not os.fork():
            break
    while True:
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            os._exit(0)
        connection.close()


def hears_no_more(path):
    """Subscribes, and shuts its end down for reading, but keeps it open. connd's send(2) fails."""
    connection = Connection(path)
    connection.watch()
    assert connection.await_frame(DATA)
    connection.socket.shutdown(sockets.SHUT_RD)
    say("held")
    stay(connection)


def refused_streams(path):
    """Acknowledges no settings, reads nothing, and opens streams without end. connd refuses each
    stream with a frame.
    """
    connection = Connection(path, greet=False)
    connection.send(PREFACE + frame(SETTINGS, 0, 0))
    connection.socket.settimeout(2)
    try:
        for _ in range(500_000):
            begin, _ = connection.call(GUARD)
            if not connection.send(begin):
                break
        say(connection.fate())
    except TimeoutError:
        # connd has stopped reading.
        say("held")
    stay(connection)


# Harmless clients


def measures_bandwidth(path, pings=250):
    """Like grpc-go: a ping for each message while none is outstanding."""
    connection = Connection(path)
    connection.watch()
    say("held")
    answered, is_out = 0, False
    for kind, flags, _, _ in connection.frames():
        if kind == DATA and not is_out:
            is_out = connection.send(frame(PING, 0, 0, bytes(8)))
        if kind == PING and flags & 1:
            is_out = False
            answered += 1
        if kind == GOAWAY:
            break
        if answered == pings:
            say("served")
            stay(connection)
    say(f"closed after {answered}")
    stay(connection)


def asks_and_cancels(path, calls=1000):
    """Many queries on one connection, each cancelled after its first answer."""
    connection = Connection(path)
    connection.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
    frames = connection.frames()
    for number in range(calls):
        stream = connection.watch()
        if not any(kind == DATA and of == stream for kind, _, of, _ in frames):
            say(f"closed after {number}")
            break
        connection.send(frame(RESET, 0, stream, struct.pack(">I", 8)))
    else:
        say("served")
    stay(connection)


# Clients that do not speak the protocol


def garbage(path):
    """Sends random bytes instead of the preface, or after it."""
    noise = random.Random(42)
    for number in range(200):
        connection = Connection(path, greet=number % 2 == 1)
        connection.send(noise.randbytes(1 << 16))
        connection.socket.shutdown(sockets.SHUT_WR)
        fate = connection.fate()
    say(fate)
    stay()


def half_frames(path):
    """Sends a HEADERS frame of the maximum size without its last byte."""
    made = [Connection(path) for _ in range(1000)]
    for connection in made:
        connection.send(frame(HEADERS, END_HEADERS, 1, headers(WATCH) + bytes(16000))[:-1])
    # connd reads them together with the acknowledged settings.
    for connection in made:
        assert connection.await_frame(SETTINGS) and connection.await_frame(SETTINGS)
    say("held")
    stay(made)


def fill_calls(path, settings, payload, connections):
    """Begins calls that never end, as many as the connections' windows allow."""
    made = [Connection(path, settings) for _ in range(connections)]
    for connection in made:
        for _ in range(65535 // len(payload)):
            begin, stream = connection.call(GUARD)
            assert connection.send(begin + frame(DATA, 0, stream, payload))
    # connd answers a ping after it has read everything before.
    for connection in made:
        connection.send(frame(PING, 0, 0, bytes(8)))
        assert connection.await_frame(PING)
    say("held")
    stay(made)


def half_messages(path):
    """Sends messages without their last bytes."""
    fill_calls(path, b"", message(bytes(4000), length=4096), 50)


def refuses_answers(path):
    """Sends hundreds of requests, with a window of 0 for the answers."""
    fill_calls(path, struct.pack(">HI", 4, 0), message() * 800, 5)


def reads_settings(path):
    """Harmless: prints the settings in connd's first frame."""
    for kind, flags, _, payload in Connection(path).frames():
        if kind == SETTINGS and not flags:
            say(" ".join(f"{key}={value}" for key, value in struct.iter_unpack(">HI", payload)))
            break
    stay()


def asks_early(path, count=20):
    """Harmless: begins a call before reading connd's SETTINGS, and exceeds the initial windows."""
    connection = Connection(path, greet=False)
    begin, stream = connection.call(GUARD)
    connection.send(PREFACE + frame(SETTINGS, 0, 0) + begin)
    request = pb.GuardRequest()
    request.add.remote = "x" * 8000
    body = message(request.SerializeToString())
    windows, initial = {0: 65_535, stream: 65_535}, 65_535
    frames = connection.frames()
    for _ in range(count):
        while min(windows.values()) < len(body):
            kind, flags, on, payload = next(frames)
            if kind == WINDOW_UPDATE:
                windows[on] += int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags:
                connection.send(frame(SETTINGS, 1, 0))
                for key, value in struct.iter_unpack(">HI", payload):
                    if key == 4:
                        windows[stream] += value - initial
                        initial = value
        connection.send(frame(DATA, 0, stream, body))
        for on in windows:
            windows[on] -= len(body)
    say("asked")
    stay()


def header_bomb(path):
    """One long header, and thousands of references of a byte each to it (CVE-2016-6581)."""
    connection = Connection(path)
    bomb = b"\x40\x01x\x7f" + bytes([0x80 | (3000 - 127) & 0x7F, (3000 - 127) >> 7]) + b"y" * 3000
    connection.send(frame(HEADERS, END_HEADERS, 1, headers(WATCH) + bomb + b"\xbe" * 12_000))
    say(connection.fate())
    stay(connection)


def continuations(path):
    """Headers that never end (CVE-2024-27316)."""
    connection = Connection(path)
    part = literal("x", "y" * 100) * 100
    sent = connection.send(frame(HEADERS, 0, 1, headers(WATCH)))
    for _ in range(10_000):
        sent = sent and connection.send(frame(CONTINUATION, 0, 1, part))
    assert not sent
    say(connection.fate())
    stay(connection)


def flood(path, attack, count=100_000):
    """Sends frames that cost the sender little: ends when connd closes the connection."""
    connection = Connection(path)
    connection.watch()
    for _ in range(count // 100):
        if not connection.send(attack * 100):
            break
    else:
        say("held")
    say(connection.fate())
    stay(connection)


def pings(path):
    flood(path, frame(PING, 0, 0, bytes(8)))


def settings(path):
    flood(path, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)))


def empty_data(path):
    """Sends empty DATA frames in a call that may continue."""
    connection = Connection(path)
    begin, stream = connection.call(GUARD)
    connection.send(begin + frame(DATA, 0, stream) * 10_000)
    say(connection.fate())
    stay(connection)


def malformed(path):
    """Invalid requests (RFC 9113, 8.1.1), each on its own connection."""
    fates = set()
    for odd in [
        literal("Te", "trailers"), literal("te", "gzip"), literal("connection", "close"), literal("upgrade", "h2c"),
        literal(":path", "/twice"), literal(":status", "200"), literal("content-length", "7"), literal("content-length", "x"),
    ]:
        connection = Connection(path)
        connection.send(
            frame(HEADERS, END_HEADERS, 1, headers(GUARD) + odd) + frame(DATA, END_STREAM, 1, message()))
        fates.add(connection.fate())
        connection.socket.close()
    say(" ".join(sorted(fates)))
    stay()


def faults_when_answered(path, times=300):
    """Waits for the answer to each call, and then sends more data than its content-length, so that
    connd resets the stream.
    """
    connection = Connection(path)
    fate = "held"
    frames = connection.frames()
    for stream in range(1, 2 * times, 2):
        connection.send(
            frame(HEADERS, END_HEADERS, stream, headers(WATCH) + literal("content-length", "5"))
            + frame(DATA, 0, stream, message()))
        if not any(kind == DATA for kind, *_ in frames):
            fate = "closed"
            break
        connection.send(frame(DATA, 0, stream, b"."))
        for kind, _, _, payload in frames:
            if kind == GOAWAY:
                fate = f"goaway {int.from_bytes(payload[4:8], 'big')}"
            if kind in (GOAWAY, RESET):
                break
        if fate != "held":
            break
    say(fate)
    stay(connection)


def forbidden_frames(path):
    """Frames that RFC 9113 forbids and that a server might ignore, each on its own connection."""
    def begin(stream):
        return frame(HEADERS, END_HEADERS, stream, headers(GUARD))

    fates = set()
    for frames in [
        # A skipped stream number, and a reused one (5.1.1).
        begin(5) + begin(3),
        begin(1) + frame(RESET, 0, 1, struct.pack(">I", 8)) + begin(1),
        # Trailers without the end of the stream, and trailers with a pseudo-header (8.1).
        begin(1) + frame(HEADERS, END_HEADERS, 1, literal("x", "y")),
        begin(1) + frame(HEADERS, END_HEADERS | END_STREAM, 1, literal(":path", "/")),
        frame(PRIORITY, 0, 0, bytes(5)),
    ]:
        connection = Connection(path)
        connection.send(frames)
        fates.add(connection.fate())
        connection.socket.close()
    say(" ".join(sorted(fates)))
    stay()


# Clients with valid frames in random order


def random_frames(path, clients=60, steps=300):
    """Allowed frames in any order: chosen by seeds, made by a library that knows the protocol."""
    for seed in range(clients):
        RandomFrames(path, random.Random(seed)).play(steps)
    say("held")
    stay()


class RandomFrames:
    METHODS = [
        *(f"Connectivity/{name}" for name in ["Watch", "Guard", "GetStatus", "WatchPath", "Nothing"]),
        *(f"Diagnostics/{name}" for name in ["ListLinks", "Explain", "ListTransitions"]),
    ]

    def __init__(self, path, chance):
        self.chance = chance
        self.socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self.socket.connect(path)
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self.http.initiate_connection()
        self.open = []

    def play(self, steps):
        """Makes steps until connd closes the connection or all are done."""
        for _ in range(steps):
            try:
                self.step()
            except (h2.exceptions.ProtocolError, KeyError):
                pass  # Not allowed at this moment.
            if not self.flush() or not self.take():
                break
        self.socket.close()

    def flush(self):
        self.socket.settimeout(0.2)
        try:
            self.socket.sendall(self.http.data_to_send())
            return True
        except OSError:
            return False

    def take(self):
        """Reads what is available, most of the time."""
        if self.chance.random() < 0.3:
            return True
        self.socket.setblocking(False)
        try:
            data = self.socket.recv(1 << 16)
            return bool(data) and bool([*self.http.receive_data(data), True])
        except BlockingIOError:
            return True
        except (OSError, h2.exceptions.ProtocolError):
            return False

    def step(self):
        stream = self.chance.choice(self.open) if self.open else None
        what = self.chance.randrange(10)
        if what < 3 or stream is None:
            self.begin()
        elif what < 6:
            self.http.send_data(stream, self.data(), end_stream=self.chance.random() < 0.4)
        elif what == 6:
            self.open.remove(stream)
            self.http.reset_stream(stream, self.chance.randrange(14))
        elif what == 7:
            self.http.increment_flow_control_window(self.chance.randrange(1, 1 << 16), self.chance.choice([None, stream]))
        elif what == 8:
            self.http.ping(self.chance.randbytes(8))
        else:
            self.http.update_settings(self.chance.choice([
                {1: self.chance.choice([0, 100, 4096])}, {4: self.chance.choice([0, 1, 65535, 1 << 20])},
                {5: self.chance.choice([1 << 14, 1 << 20])}, {6: self.chance.choice([100, 1 << 16])}]))

    def begin(self):
        stream = self.http.get_next_available_stream_id()
        method = self.chance.choice(self.METHODS)
        kind = self.chance.choice(["application/grpc"] * 6 + ["application/grpc+json", "text/plain"])
        odd = [(f"x-{self.chance.randrange(9)}", "y" * self.chance.choice([0, 1, 100, 5000]))]
        self.http.send_headers(stream, [
            (":method", self.chance.choice(["POST"] * 6 + ["GET"])), (":scheme", "http"), (":authority", "localhost"),
            (":path", f"/connectivity.v1.{method}"), ("content-type", kind), ("te", "trailers"),
            *self.chance.sample(odd, self.chance.randrange(2))], end_stream=self.chance.random() < 0.1)
        self.open.append(stream)

    def data(self):
        bytes = self.chance.randbytes(self.chance.choice([0, 1, 7, 100, 2000]))
        return self.chance.choice([message(), message(bytes), bytes, message(b"\x0a\x09127.0.0.1")])


# A listener instead of connd


def accepts_nobody(path):
    """Listens at connd's path with a full backlog, and never accepts."""
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    listener.bind(path)
    listener.listen(0)
    waiting = []
    try:
        while True:
            waiting.append(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM))
            waiting[-1].setblocking(False)
            waiting[-1].connect(path)
    except BlockingIOError:
        say("held")
        stay(waiting)


# Beyond the limits


def declares_100_megabytes(path):
    connection = Connection(path)
    begin, stream = connection.call(GUARD)
    connection.send(begin + frame(DATA, 0, stream, message(bytes(1000), length=100 << 20)))
    # Only the trailers, which end the call, have that flag.
    assert any(flags & END_STREAM and kind == HEADERS for kind, flags, *_ in connection.frames())
    say("trailers")
    stay(connection)


def sends_100_megabytes(path):
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call = channel.unary_unary("/connectivity.v1.Diagnostics/Explain")
        try:
            call(bytes(100 << 20), timeout=DEADLINE)
        except grpc.RpcError as error:
            say(error.code().name)
        stay()


def many_connections(path, count=100):
    """Exceeds the limit of connections. Prints how many connd admits, and how the others end."""
    made = [Connection(path) for _ in range(count)]
    fates = []
    for connection in made:
        connection.watch()
        kinds = connection.frames()
        last = next((frame for frame in kinds if frame[0] in (DATA, GOAWAY)), None)
        if last is None or last[0] == GOAWAY:
            fates.append("closed" if last is None else f"goaway {last[3][7]}")
    say(f"admitted {count - len(fates)}")
    say(" ".join(sorted(set(fates))))
    stay(made)


def many_streams(path, count=40):
    """Exceeds the user's limit of streams. connd must refuse the excess, and keep the others."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = rpc.ConnectivityStub(channel)
        codes = []
        calls = [stub.Watch(pb.WatchRequest()) for _ in range(count)]
        for call in calls:
            try:
                next(call)
            except grpc.RpcError as error:
                assert "limits.streamsPerUser" in error.details(), error
                codes.append(error.code().name)
        say(f"admitted {count - len(codes)}")
        say(" ".join(sorted(set(codes))))
        # The end of a call frees a place.
        next(call for call in calls if call.is_active()).cancel()
        while True:
            try:
                next(stub.Watch(pb.WatchRequest()))
                break
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
        say("again")
        stay()


def lists_connections(path, count=50):
    """Lists the user's connections many times at once. connd must answer each call in its turn."""
    # Both ends are listed. connd omits connections of loopback addresses.
    with sockets.create_server(("192.0.2.2", 0)) as server:
        made = [(sockets.create_connection(server.getsockname()), server.accept()) for _ in range(400)]
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        request = diagnostics_pb2.ListConnectionsRequest()
        calls = [stub.ListConnections.future(request, timeout=DEADLINE) for _ in range(count)]
        say("asked")
        sizes = [len(call.result().connections) for call in calls]
        say(f"answered {len(sizes)} with {min(sizes)} to {max(sizes)}")
        # The client leaves the next calls.
        for call in [stub.ListConnections.future(request) for _ in range(count)]:
            call.cancel()
        say(f"then {len(stub.ListConnections(request, timeout=DEADLINE).connections)}")
        stay(made)


def too_many_streams(path):
    """Opens more streams on one connection than connd's SETTINGS allow."""
    connection = Connection(path)
    for _ in range(2000):
        # Without their requests, so that there is nothing to answer yet.
        begin, _ = connection.call(LIST_LINKS)
        if not connection.send(begin):
            break
    say(connection.fate())
    stay(connection)


def holds_connections(path):
    """Opens more connections than connd has descriptors. Closes them on SIGUSR1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    made = [Connection(path) for _ in range(100)]
    say("held")
    signal.sigwait({signal.SIGUSR1})
    for connection in made:
        connection.socket.close()
    say("gone")
    stay()


ATTACKS = {
    attack.__name__: attack
    for attack in [
        are_told_of_the_end, has_calls_when_connd_stops, has_calls_as_another_person_when_connd_stops, have_long_deadlines, are_stopped, never_reads, reads_byte_by_byte, is_stopped, vanishes,
        opens_and_closes, cancels, asks_and_leaves, hears_no_more, refused_streams, measures_bandwidth, asks_and_cancels, malformed,
        faults_when_answered,
        forbidden_frames, comes_and_goes, connects_without_end, reads_settings, accepts_nobody, random_frames, dies_at_birth, garbage, half_frames, half_messages, refuses_answers, asks_early, header_bomb, continuations, pings, settings,
        empty_data, declares_100_megabytes,
        sends_100_megabytes, many_connections, many_streams, lists_connections, too_many_streams, holds_connections,
    ]
}

if __name__ == "__main__":
    ATTACKS[sys.argv[2]](sys.argv[1])
