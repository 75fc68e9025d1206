"""A connection of Multipath TCP on which one side asks every 10 ms, and the other answers.

usage: pulses.py answer ADDRESS PORT
       pulses.py ask ADDRESS PORT FILE     appends to FILE the wait for each answer, in ms
"""

import socket
import sys
import threading
import time

IPPROTO_MPTCP = 262


def receive(connection, count):
    data = connection.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        sys.exit("the connection has ended")


def answer(connection):
    while True:
        receive(connection, 100)
        connection.sendall(bytes(200))


def main(role, address, port, file=None):
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if role == "answer":
        end.bind((address, int(port)))
        end.listen()
        while True:
            threading.Thread(target=answer, args=[end.accept()[0]]).start()
    end.connect((address, int(port)))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with open(file, "a", encoding="ascii") as waits:
        while True:
            start = time.monotonic()
            end.sendall(bytes(100))
            receive(end, 200)
            print(round(1000 * (time.monotonic() - start)), file=waits, flush=True)
            time.sleep(0.01)


main(*sys.argv[1:])
