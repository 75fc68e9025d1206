"""Relays one client to a Unix socket, over a connection whose opener has exited.

    orphan.py SOCKET RELAY

It listens at RELAY, prints `ready` and the opener's pid, and ends with the client. For
SO_PEERCRED at SOCKET, the peer is the process that has exited.
"""

import os
import socket
import sys
import threading


def opened_by_another(path):
    here, there = socket.socketpair()
    opener = os.fork()
    if opener == 0:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        socket.send_fds(there, [b"."], [connection.fileno()])
        os._exit(0)
    _, descriptors, _, _ = socket.recv_fds(here, 1, 1)
    os.waitpid(opener, 0)
    return socket.socket(fileno=descriptors[0]), opener


def pass_on(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


connd, opener = opened_by_another(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[2])
listener.listen()
print("ready", opener, flush=True)
client, _ = listener.accept()
threading.Thread(target=pass_on, args=(connd, client), daemon=True).start()
pass_on(client, connd)
