#!/usr/bin/env python3
"""connd's API as a later version may have it, made from the .proto files: one more field in each
message, value in each enum, member in each oneof, and method in each service.

    newer.py serve SOCKET LATER [--values]
    newer.py SOCKET CHECK

The first is a newer connd for today's clients: it listens on the Unix socket LATER and forwards each
call to the connd on SOCKET. It sets the new field of each message in the answers, and sends new
kinds of events and entries. With --values all enums in answers have their new value, even that of
an invalidation's severity. It prints "ready", and once each kind of answer that it has sent, or
"sent destroy" if connd destroyed a flow.

The second is a newer client of today's connd: it runs one of the checks below.
"""

import sys
from concurrent import futures

import grpc
from connectivity.v1 import connectivity_pb2, costs_pb2, diagnostics_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor

DEADLINE = 60  # seconds: limits a hang, nothing is measured
PACKAGE = "connectivity.v1"
TEXT = "from a later version"
# Nothing may be added to these: an older client would ignore it, and end more connections.
FIXED_ONEOFS = {"Scope.remote"}


# The newer API


def extend_enum(enum):
    number = max(value.number for value in enum.value) + 1
    enum.value.add(name=f"{enum.value[0].name.removesuffix('UNSPECIFIED')}LATER", number=number)


def extend_message(message):
    Field = descriptor_pb2.FieldDescriptorProto
    used = [field.number for field in message.field] + [each.end for each in message.reserved_range]
    number = max(used, default=0) + 1
    real = {field.oneof_index for field in message.field if field.HasField("oneof_index") and not field.proto3_optional}
    for index in sorted(real):
        if f"{message.name}.{message.oneof_decl[index].name}" not in FIXED_ONEOFS:
            message.field.add(
                name=f"later_{message.oneof_decl[index].name}", number=number, oneof_index=index, label=Field.LABEL_OPTIONAL,
                type=Field.TYPE_MESSAGE, type_name=f".{PACKAGE}.Later")
            number += 1
    message.field.add(name="later", number=number, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
    for enum in message.enum_type:
        extend_enum(enum)
    for nested in message.nested_type:
        extend_message(nested)


def newer_files():
    """Returns the descriptors of the later version's files, which import each other in this order."""
    for module in [connectivity_pb2, costs_pb2, diagnostics_pb2]:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            extend_message(message)
        for enum in file.enum_type:
            extend_enum(enum)
        if module is connectivity_pb2:
            extend_message(file.message_type.add(name="Later"))
        for service in file.service:
            service.method.add(name="GetLater", input_type=f".{PACKAGE}.Later", output_type=f".{PACKAGE}.Later")
        yield file


POOL = descriptor_pool.DescriptorPool()
for imported in [duration_pb2, timestamp_pb2]:
    POOL.AddSerializedFile(imported.DESCRIPTOR.serialized_pb)
FILES = list(newer_files())
for each in FILES:
    POOL.Add(each)
METHODS = {
    f"/{service.full_name}/{method.name}": (method, service.full_name)
    for name in ["Connectivity", "Costs", "Diagnostics"]
    for service in [POOL.FindServiceByName(f"{PACKAGE}.{name}")] for method in service.methods}


def message(name):
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def later(enum):
    return POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}").values[-1].number


def decorate(content, values=False):
    """Sets the new field of a message and of all messages in it, and returns the message."""
    for field, value in content.ListFields():
        is_list = isinstance(value, (list, tuple)) or hasattr(value, "append")
        if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.file.package == PACKAGE:
            for inner in value if is_list else [value]:
                decorate(inner, values)
        elif field.type == FieldDescriptor.TYPE_ENUM and values:
            new = field.enum_type.values[-1].number
            setattr(content, field.name, new) if not is_list else value.__setitem__(slice(None), [new] * len(value))
    content.later = TEXT
    return content


# The newer connd


class Forwarder(grpc.GenericRpcHandler):
    def __init__(self, channel, values):
        self.channel = channel
        self.values = values
        self.sent = set()

    def say(self, what):
        if what not in self.sent:
            self.sent.add(what)
            print(what, flush=True)

    def answers(self, request, answer):
        """Yields the newer answers to a request: its answer, and perhaps one of a new kind."""
        name = answer.DESCRIPTOR.name
        destroys = name == "GuardResponse" and answer.invalidation.severity == connectivity_pb2.INVALIDATION_SEVERITY_DESTROY
        yield decorate(answer, self.values)
        self.say("sent destroy" if destroys else f"sent {name}")
        # A client that names the kinds of events receives no others.
        if name == "GuardResponse" or name == "WatchResponse" and not request.events:
            new = type(answer)(generation=answer.generation)
            if name == "GuardResponse":
                new.id = answer.id
                new.network_namespace = answer.network_namespace
            new.later_event.later = TEXT
            yield decorate(new)
            self.say(f"sent {name}.later_event")

    def service(self, call):
        found, _ = METHODS.get(call.method, (None, None))
        if found is None:
            return None
        request_type = message_factory.GetMessageClass(found.input_type)
        answer_type = message_factory.GetMessageClass(found.output_type)
        kind = f"{'stream' if found.client_streaming else 'unary'}_{'stream' if found.server_streaming else 'unary'}"
        forward = getattr(self.channel, kind)(
            call.method, request_serializer=request_type.SerializeToString, response_deserializer=answer_type.FromString)

        def unary(request, context):
            try:
                answer = decorate(forward(request), self.values)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if answer.DESCRIPTOR.name == "ListClientsResponse":
                answer.clients.add(process=1).later_subject.later = TEXT
            if answer.DESCRIPTOR.name == "GetConfigurationResponse":
                answer.history.add(generation=1).later_event.later = TEXT
            self.say(f"sent {answer.DESCRIPTOR.name}")
            return answer

        def stream(request, context):
            answers = forward(request)
            context.add_callback(answers.cancel)
            try:
                for answer in answers:
                    yield from self.answers(request, answer)
            except grpc.RpcError as error:
                if context.is_active():
                    context.abort(error.code(), error.details())

        handler = getattr(grpc, f"{kind}_rpc_method_handler")
        return handler(
            stream if found.server_streaming else unary, request_deserializer=request_type.FromString,
            response_serializer=answer_type.SerializeToString)


def serve(socket, address, *options):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
    server.add_generic_rpc_handlers([Forwarder(grpc.insecure_channel(f"unix:{socket}"), "--values" in options)])
    server.add_insecure_port(f"unix:{address}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


# The newer client


def method(channel, name):
    """Returns a call by its name, such as Costs.SetCost."""
    path = f"/{PACKAGE}.{name.replace('.', '/')}"
    found, _ = METHODS[path]
    kind = f"{'stream' if found.client_streaming else 'unary'}_{'stream' if found.server_streaming else 'unary'}"
    return getattr(channel, kind)(
        path, request_serializer=message_factory.GetMessageClass(found.input_type).SerializeToString,
        response_deserializer=message_factory.GetMessageClass(found.output_type).FromString)


def expect_error(code, word, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert word in error.details(), error
    else:
        raise AssertionError(f"no error {code}")


# Requests that succeed, by their method. The lists have pages of one entry.
REQUESTS = {
    "Connectivity.GetStatus": {}, "Connectivity.Watch": {}, "Connectivity.GetPath": {"destination": "203.0.113.9"},
    "Connectivity.ReportAttempt": {"destination": "203.0.113.9", "outcome": 2},
    "Connectivity.WatchPath": {"destination": "203.0.113.9"}, "Connectivity.Guard": {"add": {"id": 1, "remote": "203.0.113.9"}},
    "Costs.SetCost": {"link": "eth0", "constrained": 1}, "Costs.ListNetworks": {}, "Costs.SetAssist": {"assist": 1},
    "Costs.ForgetNetwork": {"network": "eth0"}, "Diagnostics.Explain": {}, "Diagnostics.ListLinks": {},
    "Diagnostics.ListTransitions": {"page_size": 1}, "Diagnostics.GetStatistics": {}, "Diagnostics.ListClients": {},
    "Diagnostics.ListConnections": {}, "Diagnostics.Diagnose": {}, "Diagnostics.GetConfiguration": {},
}


def fields(socket):
    """The new field of any message in a request has no effect, and the answer does not have it."""
    methods = {path.removeprefix(f"/{PACKAGE}.").replace("/", ".") for path in METHODS}
    assert methods == REQUESTS.keys() | {f"{name}.GetLater" for name in ["Connectivity", "Costs", "Diagnostics"]}, methods
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        for name, content in REQUESTS.items():
            found, _ = METHODS[f"/{PACKAGE}.{name.replace('.', '/')}"]
            request = decorate(message_factory.GetMessageClass(found.input_type)(**content))
            argument = iter([request]) if found.client_streaming else request
            answer = method(channel, name)(argument, timeout=DEADLINE)
            if found.server_streaming:
                answer = next(answer)
            assert not answer.later, answer
            if name == "Connectivity.Guard":
                assert answer.path.gateway == "192.0.2.1", answer


def values(socket):
    """connd names the field of a new value that it would have to understand, or treats it as said."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        watch = message("WatchRequest")(events=[2, later("EventKind")])
        expect_error(invalid, "events", lambda: next(method(channel, "Connectivity.Watch")(watch, timeout=DEADLINE)))
        report = message("ReportAttemptRequest")(destination="203.0.113.9", outcome=later("AttemptOutcome"))
        expect_error(invalid, "outcome", lambda: method(channel, "Connectivity.ReportAttempt")(report, timeout=DEADLINE))
        cost = message("SetCostRequest")(link="eth0", constrained=later("Choice"))
        expect_error(invalid, "constrained", lambda: method(channel, "Costs.SetCost")(cost, timeout=DEADLINE))
        assist = message("SetAssistRequest")(assist=later("Choice"))
        expect_error(invalid, "assist", lambda: method(channel, "Costs.SetAssist")(assist, timeout=DEADLINE))
        flow = {"id": 1, "remote": "203.0.113.9", "question": later("FlowQuestion")}
        answers = method(channel, "Connectivity.Guard")(iter([message("GuardRequest")(add=flow)]), timeout=DEADLINE)
        assert next(answers).path.gateway == "192.0.2.1"


def kinds(socket):
    """A new kind of request is refused, and harms no other."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    Request = message("GuardRequest")
    requests = [Request(later_request={}), Request(add={"id": 1, "remote": "203.0.113.9"})]
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        answers = method(channel, "Connectivity.Guard")(iter(requests), timeout=DEADLINE)
        refused = next(answers)
        assert refused.refused.code == invalid.value[0] and refused.refused.message.startswith("request"), refused
        assert next(answers).path.gateway == "192.0.2.1"
        cost = message("SetCostRequest")(later_target={}, constrained=1)
        expect_error(invalid, "target", lambda: method(channel, "Costs.SetCost")(cost, timeout=DEADLINE))


def methods(socket):
    """A new method is unimplemented, and so is one of a new service."""
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        for name in ["Connectivity", "Costs", "Diagnostics"]:
            call = method(channel, f"{name}.GetLater")
            expect_error(grpc.StatusCode.UNIMPLEMENTED, "", lambda: call(message("Later")(), timeout=DEADLINE))
        call = channel.unary_unary(f"/{PACKAGE}.Later/GetLater", request_serializer=bytes, response_deserializer=bytes)
        expect_error(grpc.StatusCode.UNIMPLEMENTED, "", lambda: call(b"", timeout=DEADLINE))
        # Other calls on the connection go on.
        assert method(channel, "Connectivity.GetStatus")(message("GetStatusRequest")(), timeout=DEADLINE).interface == "eth0"


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        {"fields": fields, "values": values, "kinds": kinds, "methods": methods}[sys.argv[2]](sys.argv[1])
