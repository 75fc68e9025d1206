"""plain.py HOW URL FILE: downloads with a socket.

HOW is `input` (waits only for input, with epoll), `half` (the same, after it has closed its own
direction), or `multipath` (Multipath TCP).
With `serve PORT FILE`, serves one client instead, as slowly as the world's servers.
"""

import select
import socket
import sys
import time
import urllib.parse

how, url, file = sys.argv[1:]
if how == "serve":
    with socket.create_server(("", int(url))) as listener:
        connection, _ = listener.accept()
        for number in range(12_500):
            connection.sendall(b"%07d\n" % number)
            if number % 250 == 0:
                time.sleep(0.1)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    sys.exit()

parts = urllib.parse.urlsplit(url)
connection = socket.socket(proto=262 if how == "multipath" else 0)
connection.connect((parts.hostname, parts.port or 80))
connection.sendall(f"GET {parts.path} HTTP/1.0\r\n\r\n".encode())
if how == "half":
    connection.shutdown(socket.SHUT_WR)
poll, received = select.epoll(), b""
poll.register(connection, select.EPOLLIN)
while True:
    # It does not look at other events. If they come without input, it spins.
    if not any(events & select.EPOLLIN for _, events in poll.poll()):
        continue
    part = connection.recv(65536)
    if not part:
        break
    received += part
with open(file, "wb") as out:
    out.write(received.partition(b"\r\n\r\n")[2])
