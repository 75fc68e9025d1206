"""Starts a user's process with a given pid, which must be free.

    take_pid.py PID UID

Prints `taken`, and stays with its process until it is killed.
"""

import ctypes
import os
import signal
import sys

pid, uid = map(int, sys.argv[1:])
for _ in range(1000):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    child = os.fork()
    if child == 0:
        os.setuid(uid)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        signal.pause()
    if child == pid:
        print("taken", flush=True)
        signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
