#!/usr/bin/env python3
"""Checks with many guarded flows, races and restarts.

    guard.py SOCKET CHECK

Runs one of the checks below against the connd on the Unix socket, as root in connd's network
namespace, which belongs to the test. Its default route uses eth0 (10.0.0.2, gateway 10.0.0.1);
there is also eth1 (10.1.0.2, gateway 10.1.0.1).
"""

import queue
import random
import subprocess
import sys
import threading
import time

import grpc
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc

DEADLINE = 60  # seconds: limits a hang, nothing is measured


class Ip:
    """One `ip` that takes commands line by line, without the time of a new process."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["ip", "-force", "-batch", "-"], stdin=subprocess.PIPE, text=True)

    def __call__(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def finish(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


class Stream:
    """One Guard stream. `told` holds its reports, by flow."""

    def __init__(self, socket, deadline=DEADLINE):
        self.channel = grpc.insecure_channel(f"unix:{socket}")
        self.requests = queue.SimpleQueue()
        self.call = rpc.ConnectivityStub(self.channel).Guard(
            iter(self.requests.get, None), timeout=deadline, wait_for_ready=True)

    def add(self, id, remote, **fields):
        self.requests.put(pb.GuardRequest(add=pb.Flow(id=id, remote=remote, **fields)))

    def cut(self):
        self.call.cancel()
        self.channel.close()


def fate(stream, id):
    """Waits until this flow is destroyed, or known to use eth1."""
    for message in stream.call:
        event = message.WhichOneof("event")
        assert event != "refused", message
        if message.id != id:
            continue
        if event == "path" and message.path.interface == "eth1":
            return "eth1"
        # For a lost address, connd first sends an advise, and waits for the grace period.
        if event == "invalidation" and message.invalidation.severity == pb.INVALIDATION_SEVERITY_DESTROY:
            return message.invalidation.reason
    raise AssertionError(f"the stream ended without a report about flow {id}")


def races(socket):
    """A change and a registration at the same time, a thousand times: in either order, the flow
    gets a report.

    A new connection is evidence of its path (I0). If the flow is registered without a known path
    and after the change, its path uses eth1.
    """
    ip = Ip()
    addresses = [f"10.0.{1 + n // 200}.{1 + n % 200}" for n in range(500)]
    for address in addresses:
        ip(f"address add {address}/32 dev eth0")
    while address not in subprocess.run(
            ["ip", "address", "show", "dev", "eth0"], capture_output=True, text=True).stdout:
        pass
    stream = Stream(socket, deadline=5 * DEADLINE)  # for all of them, even on a busy machine
    chance = random.Random(1)
    last = 2 * len(addresses)
    stream.add(last, "203.0.113.1", local="10.0.0.2")
    known = next(stream.call).path
    assert known.interface == "eth0", known

    def race(change, register):
        """Makes the change and the registration in random order, up to half a millisecond apart."""
        first, second = (change, register) if chance.random() < 0.5 else (register, change)
        first()
        end = time.monotonic() + chance.random() * 0.0005
        while time.monotonic() < end:
            pass
        second()

    for n, address in enumerate(addresses):
        race(
            lambda: ip(f"address del {address}/32 dev eth0"),
            lambda: stream.add(2 * n, "203.0.113.1", local=address))
        reason = fate(stream, 2 * n)
        assert reason == pb.INVALIDATION_REASON_SOURCE_ADDRESS_LOST, reason

        remote = f"198.51.{100 + n // 250}.{1 + n % 250}"
        race(
            lambda: ip(f"route add {remote}/32 via 10.1.0.1 dev eth1"),
            lambda: stream.add(2 * n + 1, remote, local="10.0.0.2", known_path=known)
            if n % 2 == 0 else stream.add(2 * n + 1, remote, local="10.0.0.2"))
        reason = fate(stream, 2 * n + 1)
        if n % 2 == 0 or reason != "eth1":
            assert reason == pb.INVALIDATION_REASON_BETTER_PATH, reason
    ip.finish()


def cut(socket):
    """Streams end during registrations → connd keeps nothing of them, and serves the next client."""
    chance = random.Random(2)
    for _ in range(100):
        stream = Stream(socket)
        for id in range(200):
            stream.add(id, f"198.51.100.{1 + id % 250}")
        for _ in range(chance.randrange(20)):
            next(stream.call)
        stream.cut()
    # The next client is served as usual.
    stream = Stream(socket)
    stream.add(1, "198.51.100.1")
    assert next(stream.call).WhichOneof("event") == "path"
    stream.cut()


def restart(socket):
    """connd restarts under a thousand flows in ten streams → it guards all of them again, and reports
    only changes in between. The caller kills and restarts it between "guarding" and "lost".
    """
    remotes = {id: f"198.51.{100 + id // 250}.{1 + id % 250}" for id in range(1000)}
    paths, generation = {}, 0
    streams = [Stream(socket) for _ in range(10)]
    for id, remote in remotes.items():
        streams[id % 10].add(id, remote)
    for stream in streams:
        for _ in range(100):
            message = next(stream.call)
            paths[message.id], generation = message.path, message.generation
            assert message.path.interface == "eth0", message
    print("guarding", flush=True)
    for stream in streams:
        try:
            message = next(stream.call)
            raise AssertionError(message)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        stream.cut()
    print("lost", flush=True)

    streams = [Stream(socket) for _ in range(10)]
    for id, remote in remotes.items():
        streams[id % 10].add(
            id, remote, known_path=paths[id], since_generation=generation)
    told = {}
    for stream in streams:
        for _ in range(100):
            message = next(stream.call)
            told[message.id] = message
    changed = {id for id, message in told.items() if message.WhichOneof("event") != "path"}
    assert changed == {123}, changed
    invalidation = told[123].invalidation
    assert invalidation.reason == pb.INVALIDATION_REASON_BETTER_PATH, invalidation
    assert invalidation.severity == pb.INVALIDATION_SEVERITY_DESTROY, invalidation
    assert invalidation.cause.learnt_late, invalidation
    print("again", flush=True)

    # connd still guards all of them.
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    for number, stream in enumerate(streams):
        dead = {id for id in remotes if id % 10 == number and id != 123}
        for message in stream.call:
            assert message.invalidation.severity == pb.INVALIDATION_SEVERITY_DESTROY, message
            dead.remove(message.id)
            if not dead:
                break


def limits(socket):
    """More flows than a stream may have → connd refuses only the excess ones."""
    stream = Stream(socket, deadline=5 * DEADLINE)
    most = 16384

    def add():
        for id in range(most + 3):
            stream.add(id, f"198.{18 + id // 65536}.{id // 256 % 256}.{id % 256}")

    threading.Thread(target=add, daemon=True).start()
    refused = []
    for _ in range(most + 3):
        message = next(stream.call)
        if message.WhichOneof("event") == "refused":
            refused.append(message)
    assert [message.id for message in refused] == [most, most + 1, most + 2], refused
    for message in refused:
        assert message.refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message
        assert "16384" in message.refused.message, message
    stream.cut()


def blind(socket):
    """The kernel cannot be queried → connd still answers each registration."""
    stream = Stream(socket)
    for id in range(2000):
        stream.add(id, "198.51.100.1")
    answered = {next(stream.call).id for _ in range(2000)}
    assert answered == set(range(2000)), len(answered)
    stream.cut()


def watching(socket):
    """Guards a hundred flows, and prints those that are destroyed. The caller ends it."""
    stream = Stream(socket, deadline=None)
    for id in range(100):
        stream.add(id, f"198.18.{id}.1", local="10.0.0.2")
    for _ in range(100):
        assert next(stream.call).WhichOneof("event") == "path"
    print("guarding", flush=True)
    for message in stream.call:
        print(message.id, message.WhichOneof("event"), flush=True)


CHECKS = {check.__name__: check for check in [races, cut, restart, limits, blind, watching]}

if __name__ == "__main__":
    CHECKS[sys.argv[2]](sys.argv[1])
