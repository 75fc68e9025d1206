"""A program with connections that connd.py guards. Reads commands, a line each, and prints events.

    python driver.py                 # guards by connd.install
    python -m connd driver.py        # is guarded by the command

    connect N ADDRESS PORT           # makes the connection N: "open N DESCRIPTOR"
    open N ADDRESS PORT              # the same without a guard
    guard N                          # guards it as an older connection
    echo N                           # sends a byte: "echoed N" when it comes back
    close N                          # "closed N"
    reuse N ADDRESS PORT             # another connection, unguarded, with the descriptor of N
    fork N ADDRESS PORT              # a child makes the connection N
    status [MILLISECONDS]            # "status CATEGORY LINK", or "absent"

Prints "path N", "destroy N REASON" and so on when connd reports, and "ended N ERROR" when a
connection has ended. With KEEP_TIMEOUTS in the environment, TCP's timeouts stay as they are.
"""

import os
import selectors
import socket
import sys

import connd

SO_COOKIE = 57
selector = selectors.DefaultSelector()
sockets, numbers = {}, {}  # by number; numbers by SO_COOKIE


def say(*words):
    # One write, because connd's thread prints, too.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def report(event):
    say(event.kind, numbers.get(event.cookie), *([event.reason] if event.reason else []))


def connect(number, address, port, is_guarded=True):
    sock = socket.socket()
    numbers[int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), sys.byteorder)] = number
    try:
        # Without Python's class, the connection is not guarded.
        (sock.connect if is_guarded else super(socket.socket, sock).connect)((address, int(port)))
    except OSError as error:
        sock.close()
        return say("failed", error.strerror)
    sockets[number] = sock
    selector.register(sock, selectors.EVENT_READ, number)
    say("open", number, sock.fileno())


def close(number):
    sock = sockets.pop(number)
    selector.unregister(sock)
    sock.close()


def read(number):
    try:
        error = None if sockets[number].recv(4096) else "EOF"
    except OSError as failure:
        error = "reset" if isinstance(failure, ConnectionResetError) else failure.strerror
    if error:
        close(number)
    say(*(["ended", number, error] if error else ["echoed", number]))


def fork(*arguments):
    global selector
    reader, writer = os.pipe()
    if os.fork() != 0:
        return os.close(reader)
    # The child guards a connection of its own, and ends with its parent.
    os.close(writer)
    os.dup2(reader, 0)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ, None)
    connect(*arguments)


def run(command, *arguments):
    if command == "connect":
        connect(*arguments)
    elif command == "open":
        connect(*arguments, is_guarded=False)
    elif command == "guard":
        connd.guard(sockets[arguments[0]], on_event=report)
    elif command == "echo":
        sockets[arguments[0]].send(b"x")
    elif command == "close":
        close(arguments[0])
        say("closed", arguments[0])
    elif command == "reuse":
        close(arguments[0])
        connect(*arguments, is_guarded=False)
    elif command == "fork":
        fork(*arguments)
    elif command == "status":
        try:
            status = connd.status(int(arguments[0]) / 1000 if arguments else 10)
            say("status", status.category, status.interface)
        except OSError:
            say("absent")


def main():
    connd.install(report, shortens_outages="KEEP_TIMEOUTS" not in os.environ)
    selector.register(0, selectors.EVENT_READ, None)
    say("ready")
    data = b""
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                read(key.data)
                continue
            part = os.read(0, 65536)
            if not part:
                sys.exit()
            *lines, data = (data + part).split(b"\n")
            for line in lines:
                run(*line.decode().split())


main()
