#!/usr/bin/env python3
"""A server for the examples. It sends each caller the address that it sees, and keeps the call open."""

import argparse
import threading
from concurrent import futures

import grpc
from google.protobuf import empty_pb2, wrappers_pb2


def hold(_, context):
    ended = threading.Event()
    context.add_callback(ended.set)
    yield wrappers_pb2.StringValue(value=context.peer())
    ended.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", metavar="ADDRESS:PORT", help="where to listen")
    arguments = parser.parse_args()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    method = grpc.unary_stream_rpc_method_handler(
        hold, empty_pb2.Empty.FromString, wrappers_pb2.StringValue.SerializeToString)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("demo.Demo", {"Hold": method})])
    server.add_insecure_port(arguments.address)
    server.start()
    print("listening", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
