#!/usr/bin/env python3
"""A server in connd's place that destroys each new connection immediately.

    refuter.py SOCKET [--doubt | --better]

It serves `Guard` on the Unix socket, and prints each registered flow as a JSON line. With --doubt
it reports no path for a connection, and destroys it at the end of the grace period. With --better
it then reports a better path, and later that a continuing connection has lost its link.
"""

import sys
import time
from concurrent import futures

import grpc
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc
from google.protobuf import json_format

PATH = pb.Path(status=pb.PATH_STATUS_SATISFIED, interface="eth0", chain=[pb.ChainLink(name="eth0", index=2)], medium=pb.MEDIUM_WIRED,
               source="10.0.0.2", gateway="10.0.0.1", table=254)
NO_PATH = pb.Path(status=pb.PATH_STATUS_UNSATISFIED, reason=pb.PATH_REASON_NO_ROUTE)


class Refuter(rpc.ConnectivityServicer):
    def __init__(self, doubts, finds_better):
        self.doubts = doubts
        self.finds_better = finds_better

    def Guard(self, requests, context):
        for request in requests:
            if not request.HasField("add"):
                continue
            flow = request.add
            print(json_format.MessageToJson(flow, indent=None), flush=True)
            if self.finds_better and flow.interface:
                yield pb.GuardResponse(id=flow.id, generation=1, path=PATH)
                yield self.lost(flow, pb.INVALIDATION_SEVERITY_DESTROY, pb.CAUSE_TRIGGER_LINK, "carrierLost")
                continue
            if not flow.local:
                path = NO_PATH if self.doubts or self.finds_better else PATH
                yield pb.GuardResponse(id=flow.id, generation=1, path=path)
                continue
            if self.finds_better:
                yield self.lost(flow, pb.INVALIDATION_SEVERITY_ADVISE, pb.CAUSE_TRIGGER_REGISTRATION, "pathMissing")
                time.sleep(1)  # Calls are in flight by then.
            if self.doubts:
                yield self.lost(flow, pb.INVALIDATION_SEVERITY_ADVISE, pb.CAUSE_TRIGGER_REGISTRATION, "pathMissing")
                time.sleep(1)  # InvalidationPolicy.routeGrace
                yield self.lost(flow, pb.INVALIDATION_SEVERITY_DESTROY, pb.CAUSE_TRIGGER_TIMER, "graceEnded")
                continue
            yield pb.GuardResponse(id=flow.id, generation=1, invalidation=pb.FlowInvalidation(
                reason=pb.INVALIDATION_REASON_BETTER_PATH, severity=pb.INVALIDATION_SEVERITY_DESTROY,
                cause=pb.Cause(trigger=pb.CAUSE_TRIGGER_REGISTRATION, change="diedBefore"), path=PATH))

    @staticmethod
    def lost(flow, severity, trigger, change):
        return pb.GuardResponse(id=flow.id, generation=1, invalidation=pb.FlowInvalidation(
            reason=pb.INVALIDATION_REASON_INTERFACE_LOST, severity=severity,
            cause=pb.Cause(trigger=trigger, change=change), path=NO_PATH))


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    rpc.add_ConnectivityServicer_to_server(Refuter("--doubt" in sys.argv[2:], "--better" in sys.argv[2:]), server)
    server.add_insecure_port(f"unix:{sys.argv[1]}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
