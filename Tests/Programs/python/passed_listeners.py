#!/usr/bin/env python3
"""Runs a command and passes it listening Unix sockets, as systemd does with several ListenStream=.

    passed_listeners.py PATH[,PATH...] COMMAND [ARGUMENT...]
"""

import os
import socket
import sys

FIRST = 3  # SD_LISTEN_FDS_START

paths = sys.argv[1].split(",")
for place, path in enumerate(paths):
    # The open descriptors are 0 to 2, and the earlier listeners.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    descriptor = listener.detach()
    if descriptor != FIRST + place:
        os.dup2(descriptor, FIRST + place)
        os.close(descriptor)
    os.set_inheritable(FIRST + place, True)
os.environ |= {"LISTEN_FDS": str(len(paths)), "LISTEN_PID": str(os.getpid())}
os.execvp(sys.argv[2], sys.argv[2:])
