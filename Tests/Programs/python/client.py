#!/usr/bin/env python3
"""A client of connd in Python. Its checks show what any program may rely on.

    client.py SOCKET CHECK

Runs one of the checks below against the connd on the Unix socket. Runs as root in connd's network
namespace, whose eth0 leads out by 192.0.2.1 and which belongs to the test. Succeeds, or ends with
the exception of the failed check.
"""

import collections.abc
import json
import os
import queue
import subprocess
import sys
import time

import grpc
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc
from connectivity.v1 import costs_pb2, costs_pb2_grpc, diagnostics_pb2, diagnostics_pb2_grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

DEADLINE = 60  # seconds: limits a hang, nothing is measured
SERVICES = {
    "connectivity.v1.Connectivity": pb, "connectivity.v1.Costs": costs_pb2,
    "connectivity.v1.Diagnostics": diagnostics_pb2,
}


def connect(socket, authority=None):
    options = [("grpc.default_authority", authority)] if authority else []
    return grpc.insecure_channel(f"unix:{socket}", options=options)


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def lose():
    ip("route del default")


def regain():
    ip("route add default via 192.0.2.1")


def known(stream):
    """Returns the next message with a known event. A newer connd may send others."""
    return next(message for message in stream if message.WhichOneof("event"))


def any_event(stream):
    """Returns the next message of a Watch, and the name of its event."""
    message = known(stream)
    name = message.WhichOneof("event")
    assert message.generation == getattr(message, name).generation, message
    return name, getattr(message, name)


def event(stream):
    """Returns the next event that is not an invalidation."""
    while True:
        name, message = any_event(stream)
        if name != "invalidation":
            return name, message


def expect_error(code, word, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert word in error.details(), error
    else:
        raise AssertionError(f"no error {code}")


def online(status):
    assert status.category == pb.CATEGORY_OTHER, status
    assert status.three_way == pb.THREE_WAY_CATEGORY_WIFI, status
    assert status.flags.reachable and not status.flags.connection_required, status
    assert status.interface == "eth0", status
    assert status.ipv4.status == pb.PATH_STATUS_SATISFIED, status
    assert status.ipv4.gateway == "192.0.2.1", status
    assert status.ipv4.source == "192.0.2.2", status
    assert [link.name for link in status.ipv4.chain] == ["eth0"], status
    assert not status.ipv4.HasField("reason"), status
    assert status.ipv6.status == pb.PATH_STATUS_UNSATISFIED, status
    assert status.ipv6.reason == pb.PATH_REASON_NO_ROUTE, status
    assert abs(status.since.ToSeconds() - time.time()) < 3600, status


# The checks


def status(socket):
    with connect(socket) as channel:
        online(rpc.ConnectivityStub(channel).GetStatus(pb.GetStatusRequest(), timeout=DEADLINE))


def authorities(socket):
    """connd accepts any authority, or none."""
    for authority in [None, "localhost", "connd.example:443", "%2Frun%2Fconnd.sock", "/run/connd.sock"]:
        with connect(socket, authority) as channel:
            stub = rpc.ConnectivityStub(channel)
            online(stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE))
            stream = stub.Watch(pb.WatchRequest(), timeout=DEADLINE)
            assert event(stream)[0] == "snapshot"
            stream.cancel()


def watch(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        stream = stub.Watch(pb.WatchRequest(), timeout=DEADLINE)
        name, snapshot = event(stream)
        assert name == "snapshot", name
        online(snapshot.status)

        lose()
        name, loss = event(stream)
        assert name == "transition", name
        assert loss.generation == snapshot.generation + 1, loss
        assert (loss.previous, loss.current) == (pb.CATEGORY_OTHER, pb.CATEGORY_NONE), loss
        assert not loss.bounced, loss
        assert loss.cause.trigger == pb.CAUSE_TRIGGER_ROUTE, loss
        assert loss.cause.change == "routeRemoved", loss
        assert loss.cause.message == "RTM_DELROUTE", loss
        assert loss.status.generation == loss.generation, loss
        assert loss.status.ipv4.reason == pb.PATH_REASON_NO_ROUTE, loss
        assert not loss.status.HasField("interface"), loss

        regain()
        name, gain = event(stream)
        assert (name, gain.current) == ("transition", pb.CATEGORY_OTHER), gain
        online(gain.status)

        ip("route replace default via 192.0.2.9")
        name, path = event(stream)
        assert (name, path.status.ipv4.gateway) == ("path", "192.0.2.9"), path
        stream.cancel()


def resume(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        seen = stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE).generation
        followed = stub.Watch(pb.WatchRequest(), timeout=DEADLINE)
        event(followed)
        lose()
        missed = [event(followed)]
        regain()
        missed += [event(followed)]

        # The missed changes come first, and nothing else before them.
        resumed = stub.Watch(pb.WatchRequest(since_generation=seen), timeout=DEADLINE)
        assert [event(resumed), event(resumed)] == missed
        lose()
        live = event(followed)
        assert event(resumed) == live

        # With a filter for transitions, connd leaves out all other events without a gap.
        chosen = stub.Watch(
            pb.WatchRequest(since_generation=seen, events=[pb.EVENT_KIND_TRANSITION]),
            timeout=DEADLINE)
        assert [event(chosen)[1] for _ in range(3)] == [missed[0][1], missed[1][1], live[1]]

        for unknown in [live[1].generation + 1000, 2**63]:
            stream = stub.Watch(pb.WatchRequest(since_generation=unknown), timeout=DEADLINE)
            name, gap = event(stream)
            assert name == "gap", name
            # The last publication may be an invalidation.
            assert gap.generation >= live[1].generation, gap
            assert gap.status.generation == gap.generation, gap
            gap.status.generation = live[1].generation
            assert gap.status == live[1].status, gap
            regain()
            live = event(followed)
            assert event(stream) == live
            lose()
            live = event(followed)


def invalidations(socket):
    """I10: a route returns within the grace period → connd destroys nothing. I5: it does not → connd
    destroys everything except on-link destinations. The narrow scope comes before the wide one
    (I9).
    """
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        stream = stub.Watch(pb.WatchRequest(), timeout=3 * DEADLINE)
        online(any_event(stream)[1].status)

        def expect(reason, severity, scope):
            name, invalidation = any_event(stream)
            assert name == "invalidation", name
            assert invalidation.reason == reason, invalidation
            assert invalidation.severity == severity, invalidation
            assert invalidation.scope == scope, invalidation
            assert invalidation.cause.change, invalidation

        def narrow(severity):
            scope = pb.Scope(
                interface="eth0", family=pb.ADDRESS_FAMILY_IPV4, off_link=pb.OffLink())
            expect(pb.INVALIDATION_REASON_INTERFACE_LOST, severity, scope)

        def wide(severity):
            expect(pb.INVALIDATION_REASON_CATEGORY_CHANGED, severity, pb.Scope())

        lose()
        assert any_event(stream)[0] == "transition"
        narrow(pb.INVALIDATION_SEVERITY_ADVISE)
        wide(pb.INVALIDATION_SEVERITY_ADVISE)
        regain()
        assert any_event(stream)[0] == "transition"
        wide(pb.INVALIDATION_SEVERITY_ADVISE)
        lose()
        assert any_event(stream)[0] == "transition"
        narrow(pb.INVALIDATION_SEVERITY_ADVISE)
        wide(pb.INVALIDATION_SEVERITY_ADVISE)
        # As soon as the grace period is over.
        narrow(pb.INVALIDATION_SEVERITY_DESTROY)
        wide(pb.INVALIDATION_SEVERITY_DESTROY)
        stream.cancel()

        only = stub.Watch(
            pb.WatchRequest(events=[pb.EVENT_KIND_INVALIDATION]), timeout=DEADLINE)
        assert any_event(only)[0] == "snapshot"
        regain()
        assert any_event(only)[0] == "invalidation"


class Guard:
    """A Guard stream, and the reports about each flow."""

    def __init__(self, stub):
        self.requests = queue.SimpleQueue()
        self.stream = stub.Guard(iter(self.requests.get, None), timeout=DEADLINE)

    def add(self, id, remote, **fields):
        self.requests.put(pb.GuardRequest(add=pb.Flow(id=id, remote=remote, **fields)))

    def remove(self, id):
        self.requests.put(pb.GuardRequest(remove=pb.RemoveFlow(id=id)))

    def next(self, id, event):
        """Returns the next message, which must be about this flow and of this kind."""
        message = known(self.stream)
        assert (message.id, message.WhichOneof("event")) == (id, event), message
        return getattr(message, event)

    def refused(self, id, code, field):
        refused = self.next(id, "refused")
        assert refused.code == code.value[0] and refused.message.startswith(field), refused

    def invalid(self, id, reason, severity):
        invalidation = self.next(id, "invalidation")
        assert invalidation.reason == reason, invalidation
        assert invalidation.severity == severity, invalidation
        assert invalidation.cause.change, invalidation
        return invalidation


def guard(socket):
    with connect(socket) as channel:
        guard = Guard(rpc.ConnectivityStub(channel))
        guard.add(1, "203.0.113.9")
        assert guard.next(1, "path").gateway == "192.0.2.1"
        guard.add(2, "192.0.2.200", local="192.0.2.2")
        assert not guard.next(2, "path").HasField("gateway")

        # An invalid request is refused, and the stream lives on.
        wrong = grpc.StatusCode.INVALID_ARGUMENT
        for id, remote, fields, field in [
            (3, "", {}, "add.remote"), (3, "localhost", {}, "add.remote"),
            (3, "0.0.0.0", {}, "add.remote"), (3, "203.0.113.9", {"local": "::1"}, "add.local"),
            (3, "203.0.113.9", {"local": "x"}, "add.local"),
            (3, "203.0.113.9", {"interface": "no-such-link"}, "add.interface"),
            (3, "203.0.113.9", {"known_path": pb.Path(source="x")}, "add.known_path"),
            (3, "203.0.113.9", {"known_path": pb.Path(chain=[pb.ChainLink()] * 17)}, "add.known_path"),
            (3, "203.0.113.9", {"known_path": pb.Path(chain=[pb.ChainLink(name="x" * 16)])}, "add.known_path"),
            (1, "203.0.113.7", {}, "add.id"),
        ]:
            guard.add(id, remote, **fields)
            guard.refused(id, wrong, field)
        guard.remove(99)
        guard.refused(99, wrong, "remove.id")
        guard.requests.put(pb.GuardRequest())
        guard.refused(0, wrong, "request")

        # A flow that is dead at its registration is destroyed immediately.
        guard.add(4, "203.0.113.9", local="192.0.2.99")
        guard.invalid(
            4, pb.INVALIDATION_REASON_SOURCE_ADDRESS_LOST, pb.INVALIDATION_SEVERITY_DESTROY)

        # A host route affects only the flows that it captures.
        ip("route add 203.0.113.9/32 via 192.0.2.77")
        assert guard.next(1, "path").gateway == "192.0.2.77"
        ip("route replace prohibit 203.0.113.9/32")
        guard.invalid(1, pb.INVALIDATION_REASON_INTERFACE_LOST, pb.INVALIDATION_SEVERITY_ADVISE)
        gone = guard.invalid(
            1, pb.INVALIDATION_REASON_INTERFACE_LOST, pb.INVALIDATION_SEVERITY_DESTROY)
        assert gone.path.reason == pb.PATH_REASON_PROHIBITED, gone
        ip("route del prohibit 203.0.113.9/32")
        # Its id is free, and a removed flow gets no more reports.
        guard.add(1, "203.0.113.9")
        assert guard.next(1, "path").gateway == "192.0.2.1"
        guard.remove(1)
        guard.remove(1)
        guard.refused(1, wrong, "remove.id")  # so the first removal has arrived

        # The link stays up, so the address has the route's grace period.
        ip("address del 192.0.2.2/24 dev eth0")
        for severity in [pb.INVALIDATION_SEVERITY_ADVISE, pb.INVALIDATION_SEVERITY_DESTROY]:
            guard.invalid(2, pb.INVALIDATION_REASON_SOURCE_ADDRESS_LOST, severity)


def health(socket):
    with connect(socket) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        for service in ["", *SERVICES]:
            request = health_pb2.HealthCheckRequest(service=service)
            assert stub.Check(request, timeout=DEADLINE).status == serving
            stream = stub.Watch(request, timeout=DEADLINE)
            assert next(stream).status == serving
            stream.cancel()
        unknown = health_pb2.HealthCheckRequest(service="example.Unknown")
        expect_error(
            grpc.StatusCode.NOT_FOUND, "example.Unknown",
            lambda: stub.Check(unknown, timeout=DEADLINE))
        stream = stub.Watch(unknown, timeout=DEADLINE)
        assert next(stream).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        stream.cancel()


def reflection(socket):
    with connect(socket) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services >= {*SERVICES, "grpc.health.v1.Health"}, services

        for service, module in SERVICES.items():
            file = database.FindFileContainingSymbol(service)
            ours = FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(ours)
            assert file.name == ours.name, file.name
            described = {m.name: m.output_type for s in file.service for m in s.method}
            assert described == {m.name: m.output_type for s in ours.service for m in s.method}
            assert len(described) >= 3, described
            assert {m.name for m in file.message_type} == {m.name for m in ours.message_type}
            # Its imports are available as well.
            for name in file.dependency:
                assert database.FindFileByName(name).name == name
        # A method and an enum are symbols too.
        for symbol in ["connectivity.v1.Connectivity.Watch", "connectivity.v1.Status", "connectivity.v1.Category"]:
            assert database.FindFileContainingSymbol(symbol).name == pb.DESCRIPTOR.name, symbol

        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="example.Unknown")
        answers = stub.ServerReflectionInfo(iter([request]), timeout=DEADLINE)
        assert next(answers).error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def get_path(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)

        def path(**request):
            answer = stub.GetPath(pb.GetPathRequest(**request), timeout=DEADLINE)
            assert answer.destination == request["destination"], answer
            assert answer.network_namespace == os.stat("/proc/self/ns/net").st_ino, answer
            return answer.path

        # More queries than connd allows concurrently, on the connection of a stream.
        watch = stub.Watch(pb.WatchRequest())
        next(watch)
        for host in range(400):
            assert path(destination=f"203.0.{host // 256}.{host % 256}").gateway == "192.0.2.1"
        watch.cancel()
        ip("route add 203.0.113.9/32 via 192.0.2.77")
        assert path(destination="203.0.113.9").gateway == "192.0.2.77"
        assert path(destination="::ffff:203.0.113.9").gateway == "192.0.2.77"
        ip("route replace prohibit 203.0.113.9/32")
        assert path(destination="203.0.113.9").reason == pb.PATH_REASON_PROHIBITED
        ip("route del prohibit 203.0.113.9/32")
        ip("route add default via 192.0.2.88 table 100")
        ip("rule add fwmark 16 lookup 100")
        assert path(destination="203.0.113.9", mark=16).table == 100
        assert path(destination="203.0.113.9").table == 254


def watch_path(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        request = pb.WatchPathRequest(destination="203.0.113.9")
        stream = stub.WatchPath(request, timeout=DEADLINE)
        first = next(stream)
        assert first.destination == "203.0.113.9", first
        assert first.path.gateway == "192.0.2.1", first

        # A host route does not concern the default path, only this one.
        ip("route add 203.0.113.9/32 via 192.0.2.77")
        host = next(stream)
        assert host.path.gateway == "192.0.2.77", host
        ip("route replace prohibit 203.0.113.9/32")
        prohibited = next(stream)
        assert prohibited.path.status == pb.PATH_STATUS_UNSATISFIED, prohibited
        assert prohibited.path.reason == pb.PATH_REASON_PROHIBITED, prohibited
        ip("route del prohibit 203.0.113.9/32")
        assert next(stream).path == first.path

        # Marked traffic has its own route.
        ip("route add default via 192.0.2.88 table 100")
        ip("rule add fwmark 16 lookup 100")
        marked = stub.WatchPath(
            pb.WatchPathRequest(destination="203.0.113.9", mark=16), timeout=DEADLINE)
        path = next(marked).path
        assert (path.gateway, path.table) == ("192.0.2.88", 100), path


def explain(socket):
    with connect(socket) as channel:
        stub = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        default = stub.Explain(diagnostics_pb2.ExplainRequest(), timeout=DEADLINE)
        assert default.route_prefix == "0.0.0.0/0", default
        assert default.path.gateway == "192.0.2.1", default
        assert [link.name for link in default.links] == ["eth0"], default
        assert default.links[0].evidence.source == pb.EVIDENCE_SOURCE_KIND, default
        assert default.links[0].evidence.value == "veth", default
        assert [rule.table for rule in default.rules] == [254], default
        assert default.category == pb.CATEGORY_OTHER, default
        assert default.probes and all(probe.agrees for probe in default.probes), default

        on_link = stub.Explain(
            diagnostics_pb2.ExplainRequest(destination="192.0.2.9"), timeout=DEADLINE)
        assert on_link.destination == "192.0.2.9", on_link
        assert on_link.route_prefix == "192.0.2.0/24", on_link
        assert not on_link.path.HasField("gateway"), on_link


def links(socket):
    with connect(socket) as channel:
        stub = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        answer = stub.ListLinks(diagnostics_pb2.ListLinksRequest(), timeout=DEADLINE)
        assert not answer.next_page_token, answer
        # In the kernel's order, with the link of the default route first.
        listed = json.loads(
            subprocess.run(["ip", "-json", "link"], check=True, capture_output=True).stdout)
        assert {(l.index, l.name) for l in answer.links} == {
            (l["ifindex"], l["ifname"]) for l in listed}
        first = answer.links[0]
        assert (first.name, first.kind, first.state) == ("eth0", "veth", diagnostics_pb2.LINK_STATE_UP), first
        assert first.default_ipv4 and not first.default_ipv6, first
        assert "192.0.2.2/24" in first.addresses, first
        assert answer.links[-1].name == "lo", answer


def history(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        stream = stub.Watch(pb.WatchRequest(), timeout=DEADLINE)
        event(stream)
        told = []
        for change in [lose, regain]:
            change()
            told.append(event(stream)[1])
        diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        request = diagnostics_pb2.ListTransitionsRequest
        past = diagnostics.ListTransitions(request(), timeout=DEADLINE).transitions
        assert list(past[-2:]) == told, past
        assert [t.generation for t in past] == sorted({t.generation for t in past}), past
        last = diagnostics.ListTransitions(request(limit=1), timeout=DEADLINE)
        assert list(last.transitions) == told[-1:], last


def costs(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        stream = stub.Watch(pb.WatchRequest())
        name, snapshot = event(stream)
        assert name == "snapshot" and not snapshot.status.expensive and not snapshot.status.constrained, snapshot

        def hear(expensive, constrained, change):
            name, path = event(stream)
            assert name == "path", path
            assert (path.status.expensive, path.status.constrained) == (expensive, constrained), path
            assert (path.status.ipv4.expensive, path.status.ipv4.constrained) == (expensive, constrained), path
            assert path.cause.trigger == pb.CAUSE_TRIGGER_USER and path.cause.change == change, path
            assert path.cause.message == "uid 0" and path.cause.interface == "eth0", path
            return path.generation

        generations = []
        settings = costs_pb2_grpc.CostsStub(channel)

        def choose(**choice):
            settings.SetCost(costs_pb2.SetCostRequest(link="eth0", **choice), timeout=DEADLINE)

        choose(expensive=costs_pb2.CHOICE_ON)
        generations.append(hear(True, False, "expensiveSet"))
        choose(constrained=costs_pb2.CHOICE_ON)
        generations.append(hear(True, True, "constrainedSet"))
        choose(expensive=costs_pb2.CHOICE_OFF)
        generations.append(hear(False, True, "expensiveSet"))
        history = diagnostics_pb2_grpc.DiagnosticsStub(channel).ListTransitions(
            diagnostics_pb2.ListTransitionsRequest())
        assert [choice.generation for choice in history.paths] == generations, history
        networks = settings.ListNetworks(costs_pb2.ListNetworksRequest()).networks
        network, = (network for network in networks if network.link == "eth0")
        assert network.expensive == costs_pb2.CHOICE_OFF, network
        assert (network.constrained, network.user) == (costs_pb2.CHOICE_ON, 0), network
        assert not network.HasField("end_time"), network
        # An override that ends.
        choose(constrained=costs_pb2.CHOICE_ON, duration=Duration(seconds=3600))
        network, = (
            network for network in settings.ListNetworks(costs_pb2.ListNetworksRequest()).networks
            if network.link == "eth0")
        assert 3500 < network.constrained_end_time.ToSeconds() - time.time() <= 3600, network
        assert network.end_time == network.constrained_end_time, network


def pages(socket):
    """A list in pages is the list as a whole (AIP-158). A token of another request is refused."""
    for number in range(5):
        ip(f"link add v{number} type bridge")
    with connect(socket) as channel:
        diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        settings = costs_pb2_grpc.CostsStub(channel)
        stub = rpc.ConnectivityStub(channel)
        streams = [stub.Watch(pb.WatchRequest()) for _ in range(4)]
        for stream in streams:
            event(stream)
        for change in [lose, regain, lose, regain]:
            change()
            event(streams[0])
        for number in range(5):
            settings.SetCost(
                costs_pb2.SetCostRequest(link=f"v{number}", expensive=costs_pb2.CHOICE_ON))
        lists = [
            (settings.ListNetworks, costs_pb2.ListNetworksRequest, ["networks"]),
            (diagnostics.ListLinks, diagnostics_pb2.ListLinksRequest, ["links"]),
            (diagnostics.ListClients, diagnostics_pb2.ListClientsRequest, ["clients"]),
            (diagnostics.ListTransitions, diagnostics_pb2.ListTransitionsRequest,
             ["transitions", "invalidations", "paths"]),
        ]
        tokens = []
        for method, request, fields in lists:
            whole = method(request(), timeout=DEADLINE)
            count = sum(len(getattr(whole, field)) for field in fields)
            assert count >= 4 and not whole.next_page_token, whole
            for size in [1, 2, 3, count, count + 1, 2**31 - 1]:
                joined, pages = type(whole)(), 0
                while True:
                    page = method(
                        request(page_size=size, page_token=joined.next_page_token), timeout=DEADLINE)
                    assert sum(len(getattr(page, field)) for field in fields) <= size, page
                    joined.next_page_token = ""
                    joined.MergeFrom(page)
                    pages += 1
                    if not page.next_page_token:
                        break
                assert joined == whole, (size, joined, whole)
                assert pages == -(-count // size), (size, pages)
            tokens.append(method(request(page_size=1), timeout=DEADLINE).next_page_token)
            expect_error(
                grpc.StatusCode.INVALID_ARGUMENT, "page_size",
                lambda: method(request(page_size=-1), timeout=DEADLINE))
        for place, (method, request, _) in enumerate(lists):
            others = tokens[:place] + tokens[place + 1:]
            for token in [*others, "x", tokens[place][1:], tokens[place] + "0"]:
                expect_error(
                    grpc.StatusCode.INVALID_ARGUMENT, "page_token",
                    lambda: method(request(page_token=token), timeout=DEADLINE))
        expect_error(
            grpc.StatusCode.INVALID_ARGUMENT, "page_token",
            lambda: diagnostics.ListTransitions(
                diagnostics_pb2.ListTransitionsRequest(limit=1, page_token=tokens[-1]),
                timeout=DEADLINE))
        for stream in streams:
            stream.cancel()


def complete(socket):
    """In responses, only optional fields and members of a oneof are unset, and no enum is
    UNSPECIFIED.
    """
    def check(message):
        for field in message.DESCRIPTOR.fields:
            value = getattr(message, field.name)
            is_list = not field.has_presence and isinstance(
                value, collections.abc.Sequence) and not isinstance(value, (str, bytes))
            if field.message_type and not is_list:
                can_be_unset = field.containing_oneof is not None
                if not message.HasField(field.name):
                    assert can_be_unset, (field.full_name, message)
                    continue
            if field.enum_type and (is_list or not field.has_presence or message.HasField(field.name)):
                for number in value if is_list else [value]:
                    assert field.enum_type.values_by_number[number].number != 0, (field.full_name, message)
            if field.message_type and not field.message_type.full_name.startswith("google."):
                for part in value if is_list else [value]:
                    check(part)

    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        settings = costs_pb2_grpc.CostsStub(channel)
        changes = stub.Watch(pb.WatchRequest(), timeout=3 * DEADLINE)
        path = stub.WatchPath(pb.WatchPathRequest(destination="203.0.113.9"), timeout=DEADLINE)
        guarded = Guard(stub)
        guarded.add(1, "203.0.113.9")
        guarded.add(2, "203.0.113.9", local="192.0.2.99")
        guarded.remove(3)
        for stream in [guarded.stream, guarded.stream, guarded.stream, path, changes]:
            check(next(stream))
        seen = stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE)
        check(seen)
        lose()
        check(next(changes))
        check(next(changes))
        check(next(path))
        settings.SetCost(costs_pb2.SetCostRequest(link="eth0", expensive=costs_pb2.CHOICE_ON))
        regain()
        check(next(changes))
        check(next(stub.Watch(pb.WatchRequest(since_generation=2**53), timeout=DEADLINE)))
        for destination in ["203.0.113.9", "2001:db8::1"]:
            check(stub.GetPath(pb.GetPathRequest(destination=destination), timeout=DEADLINE))
            check(diagnostics.Explain(
                diagnostics_pb2.ExplainRequest(destination=destination), timeout=DEADLINE))
        check(diagnostics.Explain(diagnostics_pb2.ExplainRequest(), timeout=DEADLINE))
        check(diagnostics.ListLinks(diagnostics_pb2.ListLinksRequest(), timeout=DEADLINE))
        check(diagnostics.ListTransitions(
            diagnostics_pb2.ListTransitionsRequest(), timeout=DEADLINE))
        check(diagnostics.ListClients(diagnostics_pb2.ListClientsRequest(), timeout=DEADLINE))
        check(diagnostics.ListConnections(
            diagnostics_pb2.ListConnectionsRequest(), timeout=DEADLINE))
        check(diagnostics.GetStatistics(diagnostics_pb2.GetStatisticsRequest(), timeout=DEADLINE))
        check(settings.ListNetworks(costs_pb2.ListNetworksRequest(), timeout=DEADLINE))
        changes.cancel()


def invalid(socket):
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        diagnostics = diagnostics_pb2_grpc.DiagnosticsStub(channel)
        settings = costs_pb2_grpc.CostsStub(channel)
        wrong = grpc.StatusCode.INVALID_ARGUMENT
        for text in ["", "localhost", "192.0.2", "192.0.2.1/24", "fe80::1%eth0", "::g", "1" * 5000]:
            expect_error(
                wrong, "destination",
                lambda: diagnostics.Explain(
                    diagnostics_pb2.ExplainRequest(destination=text), timeout=DEADLINE))
            expect_error(
                wrong, "destination",
                lambda: stub.GetPath(pb.GetPathRequest(destination=text), timeout=DEADLINE))
            expect_error(
                wrong, "destination",
                lambda: next(stub.WatchPath(
                    pb.WatchPathRequest(destination=text), timeout=DEADLINE)))
        expect_error(
            wrong, "events",
            lambda: next(stub.Watch(pb.WatchRequest(events=[77]), timeout=DEADLINE)))
        for seconds in [0, -1, 2**32, 2**63 - 1, -(2**63)]:
            request = costs_pb2.SetCostRequest(link="eth0", expensive=costs_pb2.CHOICE_ON)
            request.duration.seconds = seconds
            expect_error(wrong, "duration", lambda: settings.SetCost(request, timeout=DEADLINE))
        request = costs_pb2.SetCostRequest(link="eth0", expensive=77)
        expect_error(wrong, "expensive", lambda: settings.SetCost(request, timeout=DEADLINE))
        for service in SERVICES:
            method = channel.unary_unary(f"/{service}/Frobnicate")
            expect_error(grpc.StatusCode.UNIMPLEMENTED, "", lambda: method(b"", timeout=DEADLINE))
        online(stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE))


def cancelled(socket):
    """Opens many streams, sees two changes, cancels all streams and stays connected: the caller
    checks what remains.
    """
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        health_stub = health_pb2_grpc.HealthStub(channel)
        streams = [stub.Watch(pb.WatchRequest()) for _ in range(50)]
        streams += [
            stub.WatchPath(pb.WatchPathRequest(destination="203.0.113.9")) for _ in range(10)]
        streams += [health_stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(10)]
        for stream in streams:
            next(stream)
        print("watching", flush=True)
        for _ in range(2):
            event(streams[0])
        for stream in streams:
            stream.cancel()
        # connd answers this after it has read everything before on the same connection.
        stub.GetStatus(pb.GetStatusRequest(), timeout=DEADLINE)
        print("cancelled", flush=True)
        time.sleep(60)


def stopping(socket):
    """Every stream ends with UNAVAILABLE when connd stops, so that clients reconnect. The caller
    stops connd.
    """
    with connect(socket) as channel:
        stub = rpc.ConnectivityStub(channel)
        guard = Guard(stub)
        guard.add(1, "203.0.113.9")
        streams = [
            stub.Watch(pb.WatchRequest()), guard.stream,
            stub.WatchPath(pb.WatchPathRequest(destination="203.0.113.9")),
        ]
        for stream in streams:
            next(stream)
        print("open", flush=True)
        for stream in streams:
            expect_error(grpc.StatusCode.UNAVAILABLE, "connd is stopping", lambda: next(stream))


def idle_reader(socket):
    """A client that never reads does not delay another one, and later gets all changes or a gap."""
    with connect(socket) as lazy, connect(socket, "localhost") as channel:
        unread = rpc.ConnectivityStub(lazy).Watch(pb.WatchRequest())
        stub = rpc.ConnectivityStub(channel)
        stream = stub.Watch(pb.WatchRequest())
        _, last = event(stream)
        for number in range(300):
            ip(f"route replace default via 192.0.2.{10 + number % 200}")
            name, change = event(stream)
            assert name == "path", change
            assert change.generation == last.generation + 1, change
            last = change
        # It receives everything in order, or a gap.
        _, first = event(unread)
        generation = first.generation
        while generation < last.generation:
            name, missed = event(unread)
            assert name == "gap" or missed.generation == generation + 1, missed
            generation = missed.generation
        assert missed.status == last.status, missed


CHECKS = {
    check.__name__: check
    for check in [
        status, authorities, watch, resume, invalidations, guard, health, reflection, get_path, watch_path, explain, links,
        history, costs, pages, complete, invalid, cancelled, stopping, idle_reader,
    ]
}

if __name__ == "__main__":
    CHECKS[sys.argv[2]](sys.argv[1])
