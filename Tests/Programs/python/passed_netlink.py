#!/usr/bin/env python3
"""Runs a command and passes it an rtnetlink socket, as systemd's ListenNetlink=route does.

    passed_netlink.py BYTES COMMAND [ARGUMENT...]

The receive buffer has BYTES (the kernel uses twice as many, and at least 2304).
"""

import os
import socket
import sys

NETLINK_ROUTE = 0
FIRST = 3  # SD_LISTEN_FDS_START

with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as passed:
    passed.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[1]))
    if passed.fileno() == FIRST:
        os.set_inheritable(FIRST, True)
    else:
        os.dup2(passed.fileno(), FIRST)
    os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "netlink"}
    os.execvp(sys.argv[2], sys.argv[2:])
