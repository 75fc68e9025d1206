"""A connd in a namespace, its permanent clients, and those that come and go."""

import os
import signal
import subprocess
import sys
import threading
import time

import grpc
import hostile
from connectivity.v1 import diagnostics_pb2, diagnostics_pb2_grpc
from clients import DEADLINE, HISTORY, Failure, Follower, Guardian, Mirror, check, connect, pb, rpc
from network import MARK

FOLLOWED = [MARK, "203.0.113.9", "2001:db8:f::9"]
MIRRORS = 2


class Connd:
    """`outlives`: whether its clients must survive restarts of it."""

    def __init__(self, name, namespace, directory, binary, outlives):
        self.name, self.namespace, self.binary, self.outlives = name, namespace, binary, outlives
        self.directory = f"{directory}/{name}"
        os.mkdir(self.directory)
        self.socket = f"{self.directory}/connd.sock"
        self.log = open(f"{directory}/{name}.log", "w+")
        self.config = f"{directory}/connd.yaml"
        self.process, self.clients, self.restarts, self.base = None, [], 0, None

    def start(self):
        self.streams = self.mirrors[0].streams if self.clients else 0
        passed = {key: value for key, value in os.environ.items()
                  if not key.startswith("LISTEN_") and key not in ["NOTIFY_SOCKET", "CONND_SOCKET"]}
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, self.binary, "--socket", self.socket,
             "--config", self.config],
            env=passed | {"RUNTIME_DIRECTORY": self.directory}, stdout=self.log, stderr=self.log)

    def attach(self):
        """Starts the permanent clients."""
        arguments = self.socket, self.outlives
        self.mirrors = [Mirror(f"{self.name}, mirror {n}", *arguments) for n in range(MIRRORS)]
        self.followers = [Follower(to, f"{self.name}, path to {to}", *arguments) for to in FOLLOWED]
        self.guardian = Guardian(f"{self.name}, flows", *arguments)
        self.clients = [*self.mirrors, *self.followers, self.guardian]
        self.channel = connect(self.socket)
        self.stub = rpc.ConnectivityStub(self.channel)
        self.diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(self.channel)

    def stop(self, kill):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        status = self.process.wait(DEADLINE)
        # Before it serves, it may not handle SIGTERM yet.
        early = self.mirrors[0].streams == self.streams
        expected = [-signal.SIGKILL] if kill else [0, -signal.SIGTERM] if early else [0]
        check(status in expected, f"{self.name} ended with {status}")
        self.process = None
        self.restarts += 1

    def check_running(self):
        if self.process:
            status = self.process.poll()
            check(status is None, f"{self.name} ended by itself with {status}")
        for client in self.clients:
            if client.failure:
                raise client.failure

    def ask(self, method, request):
        return method(request, wait_for_ready=True, timeout=DEADLINE)

    def get(self):
        return self.ask(self.stub.GetStatus, pb.GetStatusRequest())

    def links(self):
        return self.ask(self.diagnostics.ListLinks, diagnostics_pb2.ListLinksRequest()).links

    def holds(self):
        """Returns the gauges in connd's statistics, by name."""
        answer = self.ask(self.diagnostics.GetStatistics, diagnostics_pb2.GetStatisticsRequest())
        return {each.name: each.value for each in answer.statistics if each.present}

    def told(self):
        """The number of messages on all streams."""
        return sum(client.messages for client in self.clients)

    def end(self):
        for client in self.clients:
            client.end()
        if self.clients:
            self.channel.close()
        if self.process:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Visitors:
    """Subscribers that come and go: politely, by closing the socket, or by being killed; some are
    stopped for a while.
    """

    def __init__(self, steady, restless, chance, directory):
        self.steady, self.all, self.chance = steady, [steady, restless], chance
        self.directory = directory
        self.calls, self.sockets, self.processes = [], [], []
        self.count = 0

    def churn(self):
        what = self.chance.choice(["call", "call", "socket", "socket", "process", "leave", "leave", "stop"])
        connd = self.chance.choice(self.all)
        back = self.chance.randrange(1, 700)
        self.tend()
        if what == "leave":
            self.leave()
        elif what == "stop":
            self.stop()
        elif what == "process" and len(self.processes) < 2:
            self.send()
        elif what == "socket" and connd.process and len(self.sockets) < 12:
            self.open(connd)
        elif what == "call" and len(self.calls) < 12 and connd.mirrors[0].status:
            self.subscribe(connd, back)

    def subscribe(self, connd, back):
        """Subscribes like a client that has missed `back` changes."""
        channel = connect(connd.socket)
        seen = max(connd.mirrors[0].status.generation - back, 0)
        # The deadline of an hour never comes: a timer for it that connd kept would stay to the end.
        call = rpc.ConnectivityStub(channel).Watch(
            pb.WatchRequest(since_generation=seen), wait_for_ready=connd is self.steady, timeout=3600)
        self.calls.append(channel)
        self.count += 1
        patience = threading.Timer(DEADLINE, call.cancel)
        patience.start()
        try:
            first = next(call)
        except grpc.RpcError as error:
            check(connd is not self.steady and error.code() == grpc.StatusCode.UNAVAILABLE, "connd refused a subscription:", error)
            return
        finally:
            patience.cancel()
        if first.WhichOneof("event") == "gap":
            check(connd is not self.steady or first.generation - seen > HISTORY or seen == 0, f"a gap event after generation {seen}, which connd must remember:", first)
        else:
            check(first.generation == seen + 1, f"changes are missing after generation {seen}:", first)

    def open(self, connd):
        """Opens a connection that never reads, or never sends."""
        self.count += 1
        try:
            connection = hostile.Connection(connd.socket)
            if self.chance.random() < 0.8:
                connection.watch()
            self.sockets.append(connection.socket)
        except OSError:
            check(connd is not self.steady, "connd does not accept connections")

    def send(self):
        """Starts a program that checks its messages, and fails at a gap."""
        self.count += 1
        with open(f"{self.directory}/visitor.log", "a") as log:
            self.processes.append(subprocess.Popen(
                [sys.executable, hostile.__file__, self.steady.socket, "is_stopped"],
                stdout=subprocess.DEVNULL, stderr=log))

    def stop(self):
        """Stops or continues one of the programs."""
        if self.processes:
            self.chance.choice(self.processes).send_signal(
                self.chance.choice([signal.SIGSTOP, signal.SIGCONT]))

    def tend(self):
        for process in self.processes:
            status = process.poll()
            if status is not None:
                with open(f"{self.directory}/visitor.log") as log:
                    check(False, f"a subscriber ended with {status}:", log.read()[-4000:])

    def leave(self):
        kind = self.chance.choice([self.calls, self.sockets, self.processes])
        if kind:
            self.dismiss(kind.pop(self.chance.randrange(len(kind))))

    def dismiss(self, visitor):
        if isinstance(visitor, subprocess.Popen):
            visitor.kill()
            visitor.wait()
        else:
            visitor.close()

    def end(self):
        self.tend()
        self.dismiss_all()

    def dismiss_all(self):
        for kind in [self.calls, self.sockets, self.processes]:
            while kind:
                self.dismiss(kind.pop())


def eventually(what, holds):
    """Polls until a condition without notification holds, or no longer fails."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            if holds():
                return
            why = Failure(f"not within {DEADLINE} s: {what}")
        except Failure as failure:
            why = failure
        if time.monotonic() > end:
            raise why
        time.sleep(0.05)
