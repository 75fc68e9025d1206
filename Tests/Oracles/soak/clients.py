"""Clients of a connd: each relies only on its messages, and checks their order."""

import collections
import copy
import queue
import threading

import grpc
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc

DEADLINE = 60  # seconds: limits a hang, nothing is measured
HISTORY = 512  # the number of changes that connd promises to remember
OPTIONS = [
    # Each client has its own connection, and finds a restarted connd quickly.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200),
]


class Failure(Exception):
    """connd violated an invariant."""


def check(holds, what, *details):
    if not holds:
        raise Failure(" ".join([what, *(f"\n  {detail}" for detail in map(str, details))]))


def connect(socket):
    return grpc.insecure_channel(f"unix:{socket}", options=OPTIONS)


class Client(threading.Thread):
    """Follows a stream, and reconnects. `outlives`: whether connd may end in the meantime."""

    def __init__(self, name, socket, outlives):
        super().__init__(name=name, daemon=True)
        self.socket, self.outlives = socket, outlives
        self.changed = threading.Condition()
        self.failure = None
        self.streams = self.messages = 0
        self.channel = None
        self.is_over = False
        self.start()

    def run(self):
        try:
            while not self.is_over:
                self.channel = connect(self.socket)
                with self.changed:
                    call = self.call(rpc.ConnectivityStub(self.channel))
                try:
                    self.follow(call)
                    raise Failure("the stream ended without a status")
                except grpc.RpcError as error:
                    if not self.is_over:
                        check(self.outlives and error.code() == grpc.StatusCode.UNAVAILABLE,
                              "the stream ended unexpectedly:", error)
                finally:
                    self.channel.close()
        except Exception as failure:
            with self.changed:
                if not self.is_over:
                    self.failure = Failure(f"{self.name}: {failure!r}: {failure}")
                self.changed.notify_all()

    def follow(self, call):
        first = True
        for message in call:
            with self.changed:
                self.messages += 1
                self.streams += first
                self.take(message, first)
                first = False
                self.changed.notify_all()

    def wait(self, what, holds):
        """Waits for a report."""
        with self.changed:
            done = self.changed.wait_for(lambda: self.failure or holds(), DEADLINE)
            if self.failure:
                raise self.failure
            check(done, f"{self.name}: no {what} within {DEADLINE} s", self)

    def end(self):
        self.is_over = True
        self.channel.close()


class Mirror(Client):
    """The status, built from the messages of Watch."""

    def __init__(self, *arguments):
        self.status = None
        self.states = collections.deque(maxlen=200)  # the last ones, for queries about a generation
        self.events = collections.Counter()
        super().__init__(*arguments)

    def __str__(self):
        return f"the mirror: {self.status}"

    def call(self, stub):
        request = pb.WatchRequest()
        if self.status:
            request.since_generation = self.status.generation
        return stub.Watch(request, wait_for_ready=True)

    def take(self, message, first):
        event, old = message.WhichOneof("event"), self.status
        inner = getattr(message, event)
        self.events[event] += 1
        check(inner.generation == message.generation, "a message and its event have different generations:", message)
        if event == "snapshot":
            check(first and old is None, "a snapshot after the first message:", message)
        elif event == "gap":
            missed = message.generation - old.generation
            # All subscribers of a connd that was killed get a gap (D5).
            check(self.outlives or missed > HISTORY, f"a gap event, but connd must remember {missed} changes:", f"after {old.generation}", message)
        else:
            check(message.generation == old.generation + 1, f"changes are missing after generation {old.generation}:", message)
        if event == "transition":
            check(inner.bounced or inner.current != old.category, "a transition to the present category, without a bounce:", message)
            check(inner.current == inner.status.category, "a transition and its status have different categories:", message)
            check(inner.previous == old.category, "a transition does not begin at the last category:", old, message)
        elif event == "path":
            # Better knowledge of a path does not change its way.
            check(inner.status.category == old.category or inner.status.interface == old.interface,
                  "a path event changes both category and link:", old, message)
            check(inner.status.since == old.since, "a path event changes the time of the last transition:", old, message)

        new = pb.Status()
        new.CopyFrom(old if event in ("invalidation", "dns") else inner.status)
        if event in ("invalidation", "dns"):
            new.generation = message.generation
        if event == "dns":
            new.dns.CopyFrom(pb.Dns(servers=inner.servers, search=inner.search, links=inner.links))
        check(new.generation == message.generation, "a message and its status have different generations:", message)
        self.status = new
        self.states.append(new)

    def state(self, generation):
        """Returns the state built up to that generation."""
        self.wait(f"message of generation {generation}",
                  lambda: self.status and self.status.generation >= generation)
        with self.changed:
            return next((state for state in self.states if state.generation == generation), None)


class Follower(Client):
    """The path to one destination."""

    def __init__(self, destination, *arguments):
        self.destination = destination
        self.path, self.generation = None, 0
        super().__init__(*arguments)

    def __str__(self):
        return f"{self.destination}: {self.path}"

    def call(self, stub):
        return stub.WatchPath(pb.WatchPathRequest(destination=self.destination), wait_for_ready=True)

    def take(self, message, first):
        check(message.destination == self.destination, "a path to another destination:", message)
        check(message.generation >= self.generation, f"the generation went back, from {self.generation}:", message)
        self.path, self.generation = message.path, message.generation


class Guarded:
    """One flow, from its owner's view."""

    def __init__(self, remote):
        self.remote = remote
        self.local = None  # as getsockname(2) would return it
        self.path = None
        self.is_answered = False

    def __str__(self):
        return f"flow to {self.remote} from {self.local}: {self.path}"


class Guardian(Client):
    """Flows that come and go, and come back after a restart of connd. A destroyed one frees its
    place for another.
    """

    SIZE = 24

    def __init__(self, *arguments):
        self.flows = {}
        self.last, self.generation = 0, 0
        self.destroyed = 0
        super().__init__(*arguments)

    def __str__(self):
        return "\n".join(map(str, self.alive()))

    def alive(self):
        """Returns a copy of the present ones."""
        with self.changed:
            return [copy.copy(flow) for flow in self.flows.values() if flow.is_answered]

    def call(self, stub):
        self.requests = queue.SimpleQueue()
        for id, flow in self.flows.items():
            flow.is_answered = False
            self.requests.put(pb.GuardRequest(add=pb.Flow(
                id=id, remote=flow.remote, local=flow.local, known_path=flow.path,
                since_generation=self.generation)))
        return stub.Guard(iter(self.requests.get, None), wait_for_ready=True)

    def follow(self, call):
        try:
            super().follow(call)
        finally:
            # grpc's thread that reads requests must not wait forever.
            self.requests.put(None)

    def add(self, remote):
        with self.changed:
            self.last += 1
            self.flows[self.last] = Guarded(remote)
            self.requests.put(pb.GuardRequest(add=pb.Flow(id=self.last, remote=remote)))

    def remove(self, chance):
        with self.changed:
            if self.flows:
                id = chance.choice(list(self.flows))
                del self.flows[id]
                self.requests.put(pb.GuardRequest(remove=pb.RemoveFlow(id=id)))

    def churn(self, chance):
        if chance.random() < 0.5:
            self.remove(chance)
        while len(self.flows) < self.SIZE:
            self.add(remote(chance))

    def take(self, message, first):
        event = message.WhichOneof("event")
        inner = getattr(message, event)
        check(message.generation >= self.generation, f"the generation went back, from {self.generation}:", message)
        self.generation = message.generation
        flow = self.flows.get(message.id)
        if event == "refused":
            # A removal that crossed the report of the flow's end.
            check(flow is None and inner.message.startswith("remove.id"), "connd refused a flow:", message)
        elif flow:
            flow.is_answered = True
            flow.path = inner.path if event == "invalidation" else inner
            # A socket gets its address when it can connect.
            if not flow.local and flow.path.status == pb.PATH_STATUS_SATISFIED:
                flow.local = flow.path.source
            if event == "invalidation" and inner.severity == pb.INVALIDATION_SEVERITY_DESTROY:
                self.destroyed += 1
                del self.flows[message.id]
        else:
            check(message.id <= self.last, "a report about a flow that was never registered:", message)


def remote(chance):
    """Far away, on-link, or one of a few destinations that many flows share."""
    return chance.choice([
        f"203.0.113.{chance.randrange(256)}", f"100.{chance.randrange(64)}.{chance.randrange(256)}.1",
        f"2001:db8:f::{chance.randrange(1, 9999):x}", f"10.{chance.randrange(4)}.0.{chance.randrange(3, 250)}",
        f"2001:db8:{chance.randrange(4)}::{chance.randrange(500, 600):x}", "17.0.0.1", "2620::1"])
