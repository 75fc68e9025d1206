#!/usr/bin/env python3
"""Guards a gRPC channel with connd. If a call's network is gone, the call ends immediately, and the next one reconnects."""

import argparse
import ipaddress
import logging
import os
import queue
import sys
import threading
import time

import grpc
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc
from google.protobuf import empty_pb2, wrappers_pb2

CONND = os.environ.get("CONND_SOCKET", "/run/connd/connd.sock")
NAMESPACE = os.stat("/proc/self/ns/net").st_ino


def cost(path):
    """Returns the cost of a path, for applications that save data."""
    return ["free", "expensive", "constrained", "expensive and constrained"][path.expensive + 2 * path.constrained]


def name(enum, value):
    """Returns the name of an enum's value, or its number if it is one of a newer connd."""
    return enum.Name(value) if value in enum.values() else str(value)


class GuardedChannel:
    """Holds a channel to one address, and replaces it when its network is gone. Read `channel` for every call.

    Calls in flight end with CANCELLED. If connd is not running, or is in another network namespace,
    the channel is like any other.
    """

    def __init__(self, target, connd=CONND):
        self._target = target
        address, _, port = target.rpartition(":")
        self._flow = pb.Flow(id=1, remote=address.strip("[]"), remote_port=int(port))
        self._offline = False
        self._connd = grpc.insecure_channel(f"unix:{connd}", [("grpc.max_reconnect_backoff_ms", 2000)])
        self._stub = rpc.ConnectivityStub(self._connd)
        try:  # Do not miss changes before the registration.
            status = self._stub.GetStatus(pb.GetStatusRequest(), timeout=1)
            self._flow.since_generation = status.generation
        except grpc.RpcError:
            logging.info("connd is not running")
        self.channel = self._connect()
        self._closed = threading.Event()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def close(self):
        self._closed.set()
        self._connd.close()
        self._follower.join()
        self.channel.close()

    def _connect(self):
        # By default, channels to one target share a connection, which is dead by now.
        return grpc.insecure_channel(self._target, [("grpc.use_local_subchannel_pool", 1)])

    def _replace(self):
        old, self.channel = self.channel, self._connect()
        old.close()

    def _follow(self):
        while not self._closed.is_set():
            requests = queue.SimpleQueue()
            requests.put(pb.GuardRequest(add=self._flow))
            try:
                for answer in self._stub.Guard(iter(requests.get, None), wait_for_ready=True):
                    if answer.network_namespace in (0, NAMESPACE):
                        self._heed(answer, requests)
            except (grpc.RpcError, ValueError):  # ValueError: it has just been closed
                logging.info("connd is gone")
            requests.put(None)
            self._closed.wait(1)

    def _heed(self, answer, requests):
        # If connd restarts, this tells it what it last reported about the flow, and when.
        self._flow.since_generation = answer.generation
        event = answer.WhichOneof("event")
        if event in ("path", "better_path_gone"):
            path = getattr(answer, event)
            satisfied = path.status == pb.PATH_STATUS_SATISFIED
            if not self._flow.HasField("known_path"):
                logging.info("guarded, by %s", path.interface or "no path")
                self._offline = not satisfied
            elif self._offline and satisfied:
                self._offline = False
                self._replace()  # The old one may be in a backoff, which is no longer needed.
            elif cost(path) != cost(self._flow.known_path):
                logging.info("the path is %s now", cost(path))
            self._flow.known_path.CopyFrom(path)
        elif event == "invalidation":
            severity = name(pb.InvalidationSeverity, answer.invalidation.severity)
            logging.info("%s: %s", severity, name(pb.InvalidationReason, answer.invalidation.reason))
            if answer.invalidation.severity == pb.INVALIDATION_SEVERITY_DESTROY:
                self._flow.ClearField("known_path")
                self._replace()
                requests.put(pb.GuardRequest(add=self._flow))
        elif event == "refused":
            logging.warning("not guarded: %s", answer.refused.message)


def address_and_port(text):
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected 192.0.2.1:50051 or [2001:db8::1]:50051") from None
    if not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} has no port")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", metavar="ADDRESS:PORT", type=address_and_port, help="where server.py listens")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stdout)
    server = GuardedChannel(arguments.server)
    while True:
        try:
            hold = server.channel.unary_stream(
                "/demo.Demo/Hold", empty_pb2.Empty.SerializeToString, wrappers_pb2.StringValue.FromString)
            for message in hold(empty_pb2.Empty()):
                logging.info("the server sees %s", message.value)
        except grpc.RpcError as error:
            logging.info("the call ended: %s", error.code().name)
            if error.code() != grpc.StatusCode.CANCELLED:
                time.sleep(1)
        except ValueError:  # The channel was replaced between the two lines above.
            pass


if __name__ == "__main__":
    main()
