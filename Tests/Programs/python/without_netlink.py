#!/usr/bin/env python3
"""Runs a command for which socket(AF_NETLINK) fails with EAFNOSUPPORT, as with systemd's
RestrictAddressFamilies=.

    without_netlink.py COMMAND [ARGUMENT...]
"""

import ctypes
import errno
import os
import platform
import struct
import sys

AF_NETLINK = 16
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]  # the number of the system call

# include/uapi/linux/{prctl,seccomp,bpf_common}.h
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NUMBER, FIRST_ARGUMENT = 0, 16  # offsets in struct seccomp_data

FILTER = [
    (LOAD_WORD, 0, 0, NUMBER),
    (JUMP_IF_EQUAL, 0, 3, SOCKET),
    (LOAD_WORD, 0, 0, FIRST_ARGUMENT),
    (JUMP_IF_EQUAL, 0, 1, AF_NETLINK),
    (RETURN, 0, 0, ERROR | errno.EAFNOSUPPORT),
    (RETURN, 0, 0, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def prctl(*arguments):
    if ctypes.CDLL(None, use_errno=True).prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def main():
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in FILTER)
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(FILTER), code)))
    os.execvp(sys.argv[1], sys.argv[1:])


main()
