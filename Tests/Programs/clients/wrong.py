"""wrong.py ADDRESS PORT: connd was wrong, or too many connections are guarded, or the thread cannot be
started. guard() raises nothing then. Prints the kinds of the events. A breaker forgets a refutation
after an hour."""

import queue
import socket
import sys
import threading
import time
from unittest import mock

import connd

destination = (sys.argv[1], int(sys.argv[2]))
events = queue.SimpleQueue()


def report(**options):
    with connd.guard(sock, on_event=events.put, **options):
        print(events.get(timeout=20).kind)


with socket.create_connection(destination) as sock:
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no thread")):
        with connd.guard(sock), socket.socket() as other:
            connd._agent.await_connection(other.fileno())
            assert connd._agent.wake is None and not connd._agent.flows and not connd._agent.connecting
    for _ in range(3):
        connd._agent.breakers.refuted(destination)
    report(is_new=True)
    connd._agent.max_flows = 0
    report()

start, breakers = time.monotonic(), connd._Breakers()
time.monotonic = lambda: start
rests = []
for pause in (0, 0, 3601, 0, 0, 301, 601 + 3600):
    start += pause
    rests.append(breakers.refuted(destination))
print(rests)
