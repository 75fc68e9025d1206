"""connd in the machine's namespace, and the client that has its connections guarded, each as its
own user.
"""

import collections
import platform
import queue
import socket
import threading
import time

import grpc
from clients import DEADLINE, check, connect, pb, rpc
from connectivity.v1 import diagnostics_pb2, diagnostics_pb2_grpc
from connd import Connd
from kernel import libc
from topology import FENCE, FENCE_TABLE, UID

SETRESUID = {"x86_64": 117, "aarch64": 147}.get(platform.machine())
ASKED = 1.2  # seconds in which E1 decides about a connection that has lost packets
GRACED = 2.0  # seconds in which a grace period ends, on a busy machine
DESTROY, DRAIN = pb.INVALIDATION_SEVERITY_DESTROY, pb.INVALIDATION_SEVERITY_DRAIN


class Told:
    """connd's report about a connection. `timeouts` is the number in a row that the connection's
    own socket had at that time, or None if all its data was acknowledged.
    """

    def __init__(self, message, timeouts):
        self.time, self.timeouts = time.monotonic(), timeouts
        self.message = message
        event = message.WhichOneof("event")
        inner = getattr(message, event)
        self.is_destroy = event == "invalidation" and inner.severity == DESTROY
        self.reason, self.is_path, self.is_of_router = "", event in ("path", "better_path_gone"), False
        self.is_doubt = self.is_asked = False
        self.text = event
        self.link = inner.path.interface if event == "invalidation" else getattr(inner, "interface", "")
        if event == "invalidation":
            self.reason = camel(pb.InvalidationReason.Name(inner.reason), "INVALIDATION_REASON_")
            # A better path drains first (I3).
            self.is_doubt = not self.is_destroy and (
                self.reason == "interfaceLost" or self.reason == "betterPath" and inner.severity == DRAIN)
            self.is_asked = not self.is_destroy and inner.HasField("socket")
            self.is_of_router = inner.cause.trigger == pb.CAUSE_TRIGGER_NEIGHBOUR
            severity = camel(pb.InvalidationSeverity.Name(inner.severity), "INVALIDATION_SEVERITY_")
            self.text = f"{severity} {self.reason} because of {flat(inner.cause)}; now {flat(inner.path)}"
            if inner.HasField("socket"):
                self.text += f"; its socket: {flat(inner.socket)}"
        else:
            self.text = f"{event} {flat(inner)}"


def camel(name, prefix):
    first, *rest = name.removeprefix(prefix).lower().split("_")
    return first + "".join(map(str.title, rest))


def flat(message):
    return " ".join(str(message).split())


class Relay(threading.Thread):
    """Relays connections to a Unix socket as another user: the kernel names the relay's uid."""

    def __init__(self, path, target, user):
        super().__init__(daemon=True)
        self.target, self.user = target, user
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.sockets = [self.listener]
        self.start()

    def run(self):
        # Only for this thread; glibc's call would change all threads.
        libc.syscall(SETRESUID, -1, self.user, -1)
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                self.sockets += [near, far]
                far.connect(self.target)
            except OSError:
                return
            for source, sink in [(near, far), (far, near)]:
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        self.close(sink)

    def close(self, sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def end(self):
        for sock in self.sockets:
            self.close(sock)
            sock.close()


class Stream(threading.Thread):
    """A stream that puts its messages into a queue, and wakes the waiting thread."""

    def __init__(self, call, put, ring):
        super().__init__(daemon=True)
        self.call, self.put, self.ring = call, put, ring
        self.error = None
        self.start()

    def run(self):
        try:
            for message in self.call:
                self.put(message)
                self.ring()
        except (grpc.RpcError, OSError) as error:
            self.error = error


class Guarding:
    """connd and its clients. `traffic` continues while they wait."""

    def __init__(self, world, traffic, directory, binary, relay):
        self.world, self.traffic = world, traffic
        self.connd = Connd("connd", world.full("M"), directory, binary, outlives=False)
        self.connd.start()
        self.relay, self.directory = relay, directory
        self.channels, self.requests, self.streams, self.relays = [], {}, [], []
        self.inbox, self.marks = collections.deque(), collections.deque()
        self.told = {}  # by id, in order
        self.connections = {}  # by id
        self.last = 0
        self.fences = 0

    def attach(self):
        self.status_channel = self.channel(self.connd.socket)
        self.stub = rpc.ConnectivityStub(self.status_channel)
        self.diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(self.status_channel)
        self.status()
        self.streams.append(Stream(
            self.stub.WatchPath(pb.WatchPathRequest(destination=FENCE), wait_for_ready=True), self.marks.append, self.traffic.ring))
        self.guard(0, self.connd.socket)
        if self.relay:
            path = f"{self.directory}/relay.sock"
            self.relays.append(Relay(path, self.connd.socket, UID))
            self.guard(UID, path)

    def channel(self, path):
        self.channels.append(connect(path))
        return self.channels[-1]

    def guard(self, uid, path):
        requests = self.requests[uid] = queue.SimpleQueue()
        call = rpc.ConnectivityStub(self.channel(path)).Guard(iter(requests.get, None), wait_for_ready=True)
        self.streams.append(Stream(call, self.receive, self.traffic.ring))

    def receive(self, message):
        """In the stream's thread, so that the time and the socket's state are those of the report.
        """
        connection = self.connections.get(message.id)
        if connection and message.HasField("question_end_time"):
            connection.ask()
        self.inbox.append(Told(message, connection.timeouts() if connection else None))

    def status(self):
        return self.stub.GetStatus(pb.GetStatusRequest(), wait_for_ready=True, timeout=DEADLINE)

    def listed(self):
        """Returns connd's verdicts on all connections (ListConnections), by their ends."""
        request, verdicts = diagnostics_pb2.ListConnectionsRequest(), {}
        while True:
            page = self.diagnostics.ListConnections(request, wait_for_ready=True, timeout=DEADLINE)
            for each in page.connections:
                verdicts[each.local, each.local_port, each.remote, each.remote_port] = each
            if not page.next_page_token:
                return verdicts
            request.page_token = page.next_page_token

    def take(self):
        """Sorts the received messages."""
        for stream in self.streams:
            check(stream.error is None, "a stream ended unexpectedly:", stream.error)
        while self.inbox:
            told = self.inbox.popleft()
            self.told.setdefault(told.message.id, []).append(told)
        status = self.connd.process.poll()
        check(status is None, f"connd ended by itself with {status}")

    def add(self, connection):
        self.last += 1
        connection.id = self.last
        self.told[self.last], self.connections[self.last] = [], connection
        self.requests[connection.uid].put(pb.GuardRequest(add=pb.Flow(
            id=connection.id, remote=connection.remote, local=connection.local, local_port=connection.local_port,
            remote_port=connection.remote_port, protocol=socket.IPPROTO_TCP, mark=connection.wanted.get("mark"),
            interface=connection.wanted.get("device"), question=pb.FLOW_QUESTION_KEEPALIVE)))

    def remove(self, connection):
        if not self.destroyed(connection):
            self.requests[connection.uid].put(pb.GuardRequest(remove=pb.RemoveFlow(id=connection.id)))
        self.told.pop(connection.id, None)
        self.connections.pop(connection.id, None)

    def answers(self, connection):
        return self.told.get(connection.id, [])

    def destroyed(self, connection):
        """Returns the report that destroyed it, or None."""
        return next((told for told in self.answers(connection) if told.is_destroy), None)

    def is_in_doubt(self, connection):
        """Whether earlier reports say that it may end (I10, or E1 for a moment)."""
        now, answers = time.monotonic(), self.answers(connection)
        if any(told.is_doubt or told.is_asked and now < told.time + ASKED for told in answers[-1:]):
            return True
        # During the grace period, its path may move on to a third link.
        doubted = next((place for place, told in enumerate(answers)
                        if told.is_doubt and now < told.time + GRACED), None)
        return bool(doubted) and answers[-1].is_path and answers[-1].link != answers[doubted - 1].link

    def fence(self):
        """Returns when connd has reported everything that happened before."""
        self.fences += 1
        gateway = f"10.249.{1 + self.fences // 250 % 250}.{1 + self.fences % 250}"
        refused = self.world.do(["M", f"route replace {FENCE} via {gateway} dev fence table {FENCE_TABLE}"])
        check(not refused, f"the kernel refused the route of the fence: {refused}")

        def is_told():
            self.take()
            return any(message.path.gateway == gateway for message in self.marks)

        check(self.traffic.pump(DEADLINE, is_told), "connd has not reported the route of the fence")
        self.marks.clear()
        # Flows are evaluated after paths: a registration is answered after them.
        for requests in self.requests.values():
            self.last += 1
            id = self.last
            requests.put(pb.GuardRequest(add=pb.Flow(id=id, remote=FENCE)))

            def is_answered():
                self.take()
                return self.told.get(id)

            check(self.traffic.pump(DEADLINE, is_answered), "connd has not answered a registration")
            requests.put(pb.GuardRequest(remove=pb.RemoveFlow(id=id)))
            del self.told[id]

    def log(self):
        self.connd.log.seek(0)
        return self.connd.log.read().splitlines()

    def end(self):
        for stream in self.streams:
            stream.call.cancel()
        for requests in self.requests.values():
            requests.put(None)
        for channel in self.channels:
            channel.close()
        for relay in self.relays:
            relay.end()
        self.connd.end()
