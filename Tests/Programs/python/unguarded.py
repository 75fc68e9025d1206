"""unguarded.py ADDRESS PORT [WORD...]: a program that knows nothing of connd.

It makes a connection, sends a byte ten times a second, and prints "open PID", "echoed" for each byte that comes
back, and "ended ERROR" at the end of the connection.

    idle       send nothing
    connect    print "connecting" before the connection is made
    orphan     a child does all this in a session of its own, and its parent ends
    multipath  by Multipath TCP
    tls        by kernel TLS with a fixed key, so that the peer's echo can be read
    poll       wait for input alone, without its errors, as many programs do; count the turns
"""

import os
import select
import socket
import struct
import sys
import time

words = sys.argv[3:]


def say(*parts):
    print(*parts, flush=True)


def encrypt(connection):
    connection.setsockopt(socket.IPPROTO_TCP, 31, b"tls")  # TCP_ULP
    key = struct.pack("=HH", 0x0303, 51) + bytes(36)  # TLS 1.2 with AES-GCM-128 (linux/tls.h)
    for direction in [1, 2]:  # TLS_TX, TLS_RX
        connection.setsockopt(282, direction, key)  # SOL_TLS


def main():
    if "orphan" in words and os.fork() == 0:
        os.setsid()
    elif "orphan" in words:
        # The parent lives on as a shell does, without the connection.
        return time.sleep(600)
    protocol = 262 if "multipath" in words else 0  # IPPROTO_MPTCP
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    if "connect" in words:
        say("connecting")
    try:
        connection.connect((sys.argv[1], int(sys.argv[2])))
        if "tls" in words:
            encrypt(connection)
        say("open", os.getpid())
        poll = select.epoll()
        poll.register(connection, select.EPOLLIN)
        turns = 0
        while True:
            if "idle" not in words:
                connection.send(b"x")
            turns += 1
            ready = poll.poll(60 if "poll" in words else 0.1)
            if not any(events & select.EPOLLIN for _, events in ready):
                if turns > 1000:
                    say("ended spinning")
                continue
            if not connection.recv(4096):
                return say("ended EOF")
            say("echoed")
            if "idle" not in words:
                time.sleep(0.1)
    except OSError as error:
        say("ended", error.strerror)
        sys.exit(3)


main()
