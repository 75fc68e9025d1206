"""outage.py SERVER SECONDS: guards a connection with options that shorten outages (C11). Lets the
network lose all answers for a time. Prints the options, and how soon the connection continued."""

import socket
import subprocess
import sys
import threading
import time

import connd

TCP_USER_TIMEOUT, TCP_RTO_MAX_MS = 18, 44


def option(sock, name):
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, name)
    except OSError:
        return "unknown"


def main(server, seconds):
    sock = socket.create_connection((server, 7))
    satisfied = threading.Event()
    guard = connd.guard(sock, is_new=True, shortens_outages=True,
                        on_event=lambda event: event.kind == "path" and satisfied.set())
    if not satisfied.wait(60):
        sys.exit("connd does not report a path")
    # The client sets the options after it has reported the path.
    end = time.monotonic() + 20
    while option(sock, TCP_RTO_MAX_MS) not in ("unknown", 2000) and time.monotonic() < end:
        time.sleep(0.05)
    before = option(sock, TCP_USER_TIMEOUT), option(sock, TCP_RTO_MAX_MS)
    # The fault is beyond the machine: its packets arrive, but the answers are lost.
    lost = ["ip", "-n", "net", "route", "add", "blackhole", sock.getsockname()[0]]
    subprocess.run(lost, check=True)
    sock.sendall(b"x\n")
    time.sleep(seconds)
    lost[4] = "delete"
    subprocess.run(lost, check=True)
    start = time.monotonic()
    sock.settimeout(4 * seconds + 60)
    answer = sock.recv(2)
    after = time.monotonic() - start
    print(f"user timeout {before[0]}, longest wait {before[1]}: {answer!r} {after:.1f} s after {seconds} s")
    guard.release()


main(sys.argv[1], int(sys.argv[2]))
