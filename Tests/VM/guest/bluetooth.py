"""A Bluetooth network between two controllers of this machine (btvirt): a phone's access point, and
its user.

    bluetooth.py

Prints the links of both, the phone's first, and holds the connection until it ends. For a personal
area network of paired devices, BlueZ does no more: it hands the kernel an L2CAP channel
(net/bluetooth/bnep).
"""

import fcntl
import signal
import socket
import struct
import subprocess

PSM = 15  # of BNEP
ROUTER, USER = 0x1116, 0x1115
ADD = 0x400442C8  # BNEPCONNADD
MTU = 1691


def channel(address, psm):
    result = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_SEQPACKET, socket.BTPROTO_L2CAP)
    result.bind((address, psm))
    result.setsockopt(6, 1, struct.pack("HHHBBBH", MTU, MTU, 0xFFFF, 0, 1, 3, 63))  # SOL_L2CAP, L2CAP_OPTIONS
    return result


def add(control, channel, role):
    request = bytearray(struct.pack("iIH16s", channel.fileno(), 0, role, b"bnep%d"))
    fcntl.ioctl(control, ADD, request)
    return request[10:26].rstrip(b"\0").decode()


listing = subprocess.run(["hciconfig"], check=True, capture_output=True, text=True).stdout
phone, user = sorted(line.split()[2] for line in listing.splitlines() if "BD Address" in line)
listener = channel(phone, PSM)
listener.listen(1)
near = channel(user, 0)
near.connect((phone, PSM))
far, _ = listener.accept()
control = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW, 4)  # BTPROTO_BNEP
# The kernel has both channels, too: they end when one is shut down, as by a phone that leaves.
signal.signal(signal.SIGTERM, lambda *_: far.shutdown(socket.SHUT_RDWR))
print(add(control, far, ROUTER), add(control, near, USER), flush=True)
signal.pause()
