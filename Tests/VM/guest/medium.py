"""The medium between the radios of mac80211_hwsim: carries each frame to the other radios.

usage: medium.py FOLDER

Reads, for each frame, two files of FOLDER: `signal`, at which frames are received, in dBm, and
`loses`, which is `data` if unicast data frames are lost and not acknowledged. Beacons and other
management frames always arrive. Prints `ready` once the kernel sends it frames.

The kernel's side is drivers/net/wireless/mac80211_hwsim.[ch]. Only one program can be the medium of
a network namespace's radios.
"""

import os
import socket
import struct
import sys

NETLINK_GENERIC, REQUEST, ACK = 16, 1, 4
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
REGISTER, FRAME, TX_INFO_FRAME = 1, 2, 3
ADDR_RECEIVER, ADDR_TRANSMITTER, FRAME_BYTES, FLAGS, RX_RATE, SIGNAL, TX_INFO, COOKIE = range(1, 9)
FREQUENCY = 19
# Bits of FLAGS: the sender expects no acknowledgement; the frame was acknowledged.
NO_ACK, ACKNOWLEDGED = 2, 4
ACK_SIGNAL = struct.pack("=i", -30)


def attribute(number, value):
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def message(kind, command, *attributes, flags=REQUEST):
    body = struct.pack("=BBH", command, 1, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def attributes(payload):
    found, offset = {}, 0
    while offset + 4 <= len(payload):
        size, number = struct.unpack_from("=HH", payload, offset)
        if size < 4:
            break
        found[number & 0x3FFF] = payload[offset + 4 : offset + size]
        offset += (size + 3) & ~3
    return found


def answer(netlink):
    """The kind, command and attributes of the next message, or an error's number as kind."""
    data = netlink.recv(65536)
    kind = struct.unpack_from("=H", data, 4)[0]
    if kind == 2:
        return struct.unpack_from("=i", data, 16)[0], None, {}
    return kind, data[16], attributes(data[20:])


def radios():
    """The second address of each radio, by which hwsim knows it."""
    found = []
    for name in sorted(os.listdir("/sys/class/mac80211_hwsim")):
        number = int(name.removeprefix("hwsim"))
        found.append(bytes([0x42, 0, 0, number >> 8, number & 255, 0]))
    return found


class Medium:
    def __init__(self, folder):
        self.folder = folder
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.netlink.bind((0, 0))
        name = attribute(FAMILY_NAME, b"MAC80211_HWSIM\0")
        self.netlink.send(message(CONTROL, GET_FAMILY, name))
        self.family = struct.unpack("=H", answer(self.netlink)[2][FAMILY_ID])[0]
        self.radios = radios()
        self.netlink.send(message(self.family, REGISTER, flags=REQUEST | ACK))
        error = answer(self.netlink)[0]
        if error:
            sys.exit(f"hwsim: errno {-error}")

    def setting(self, name, default):
        try:
            with open(f"{self.folder}/{name}", encoding="ascii") as file:
                return file.read().strip() or default
        except FileNotFoundError:
            return default

    def carry(self, frame):
        sender, data = frame[ADDR_TRANSMITTER], frame[FRAME_BYTES]
        is_group = bool(data[4] & 1)
        is_data = data[0] >> 2 & 3 == 2
        if not is_data or is_group or self.setting("loses", "") != "data":
            signal = struct.pack("=i", int(self.setting("signal", "-30")))
            for radio in self.radios:
                if radio != sender:
                    self.netlink.send(
                        message(
                            self.family,
                            FRAME,
                            attribute(ADDR_RECEIVER, radio),
                            attribute(FRAME_BYTES, data),
                            attribute(RX_RATE, struct.pack("=I", 0)),
                            attribute(SIGNAL, signal),
                            attribute(FREQUENCY, frame[FREQUENCY]),
                        )
                    )
            is_heard = not is_group
        else:
            is_heard = False
        flags = struct.unpack("=I", frame[FLAGS])[0]
        if is_heard and not flags & NO_ACK:
            flags |= ACKNOWLEDGED
        self.netlink.send(
            message(
                self.family,
                TX_INFO_FRAME,
                attribute(ADDR_TRANSMITTER, sender),
                attribute(FLAGS, struct.pack("=I", flags)),
                attribute(SIGNAL, ACK_SIGNAL),
                attribute(TX_INFO, frame[TX_INFO]),
                attribute(COOKIE, frame[COOKIE]),
            )
        )

    def run(self):
        print("ready", flush=True)
        while True:
            kind, command, found = answer(self.netlink)
            # Errors mean that a receiver is off or on another channel.
            if kind == self.family and command == FRAME and COOKIE in found:
                self.carry(found)


Medium(sys.argv[1]).run()
