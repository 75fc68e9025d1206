"""The kernel's answers over rtnetlink: those of `ip route get` and `ip link`, without a process for
each.
"""

import ctypes
import ipaddress
import os
import socket
import struct
import time
from dataclasses import dataclass

REQUEST, DUMP = 1, 0x300
NEWLINK, GETLINK, GETROUTE = 16, 18, 26
ERROR, DONE = 2, 3
LOCAL, UNICAST = 2, 1  # types of route
UP, LOWER_UP = 1, 0x10000
OPERSTATE_UP, OPERSTATE_UNKNOWN = 6, 0
RTA_DST, RTA_SRC, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC, RTA_MULTIPATH = 1, 2, 4, 5, 7, 9
FIB_MATCH = 0x2000  # RTM_F_FIB_MATCH
RTA_TABLE, RTA_MARK, RTA_VIA, RTA_UID, RTA_IP_PROTO, RTA_SPORT, RTA_DPORT, RTA_NH_ID = 15, 16, 18, 25, 27, 28, 29, 30
IFLA_IFNAME, IFLA_LINK, IFLA_MASTER, IFLA_OPERSTATE = 3, 5, 10, 16

# the multicast groups of links, neighbours, addresses, routes, rules, settings and nexthops
GROUPS = [1, 3, 5, 7, 8, 9, 11, 19, 24, 25, 32]
NEWNEIGH, DELNEIGH, NUD_FAILED = 28, 29, 0x20

libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace that the calling thread enters for the duration of a `with`."""

    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def __init__(self, name):
        self.descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self):
        self.enter(self.descriptor)

    def __exit__(self, *_):
        self.enter(self.home)

    def enter(self, descriptor):
        if libc.setns(descriptor, 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")

    def close(self):
        os.close(self.descriptor)


@dataclass(frozen=True)
class Answer:
    """The way that the kernel gives for a query, or its error."""
    link: int = 0
    source: str = None
    gateway: str = None
    table: int = 0
    type: int = 0
    error: int = 0

    def __str__(self):
        if self.error:
            return os.strerror(self.error)
        kind = "" if self.type == UNICAST else f"type {self.type} "
        return f"{kind}link {self.link} via {self.gateway} from {self.source} table {self.table}"


@dataclass
class Link:
    index: int
    flags: int
    name: str = ""
    lower: int = 0
    master: int = 0
    operstate: int = 0

    @property
    def is_up(self):
        return bool(self.flags & UP)

    @property
    def has_carrier(self):
        return bool(self.flags & LOWER_UP)

    @property
    def is_settled(self):
        """The kernel has reported the carrier: its messages may come a second after the loss."""
        return not self.is_up or self.has_carrier == (
            self.operstate in (OPERSTATE_UP, OPERSTATE_UNKNOWN))


@dataclass(frozen=True)
class Question:
    """The routing keys of a packet."""
    remote: str
    local: str = None
    local_port: int = 0
    remote_port: int = 0
    protocol: int = 0
    mark: int = 0
    uid: int = 0
    link: int = 0

    def words(self, name=None):
        """In the syntax of `ip route get`."""
        words = [self.remote]
        for word, value in [("from", self.local), ("oif", name), ("mark", self.mark), ("uid", self.uid or None),
                            ("ipproto", self.protocol), ("sport", self.local_port), ("dport", self.remote_port)]:
            if value:
                words += [word, str(value)]
        return words


def attribute(kind, payload):
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + bytes(-length % 4)


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3fff, data[4:length]
        data = data[length + 3 & ~3:]


def packed(address):
    return ipaddress.ip_address(address).packed


def text(data):
    return str(ipaddress.ip_address(data))


class Changes:
    """The times at which the kernel of one namespace reported what may have cost a path: everything
    except neighbours that have not failed.
    """

    def __init__(self, namespace):
        with namespace:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.bind((0, 0))
        self.socket.setblocking(False)
        for group in GROUPS:
            self.socket.setsockopt(270, 1, group)
        self.times = []

    def read(self):
        try:
            while data := self.socket.recv(1 << 17):
                while data:
                    length, kind = struct.unpack_from("=IH", data)
                    # struct ndmsg has the state at its eighth byte.
                    state, = struct.unpack_from("=H", data, 24)
                    if kind not in (NEWNEIGH, DELNEIGH) or state & NUD_FAILED:
                        self.note()
                    data = data[length + 3 & ~3:]
        except BlockingIOError:
            pass
        except OSError:
            # Messages were lost.
            self.note()

    def note(self):
        self.times.append(time.monotonic())

    def close(self):
        self.socket.close()


class Kernel:
    """Queries the kernel of one namespace."""

    def __init__(self, namespace):
        with namespace:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.bind((0, 0))
        # Without it, a lookup with ports ignores them.
        self.socket.setsockopt(270, 12, 1)
        self.sequence = 0

    def close(self):
        self.socket.close()

    def ask(self, kind, flags, body):
        """Returns the messages of the answer: type and body."""
        self.sequence += 1
        self.socket.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, self.sequence, 0) + body)
        while True:
            data = self.socket.recv(1 << 17)
            while data:
                length, kind, _, sequence, _ = struct.unpack_from("=IHHII", data)
                if sequence == self.sequence:
                    yield kind, data[16:length]
                    if kind in (ERROR, DONE) or not flags & DUMP:
                        return
                data = data[length + 3 & ~3:]

    def legs(self, question):
        """The links of all next hops of the deciding entry; the answer to `route` uses one of them.
        """
        (kind, data), = self.ask(GETROUTE, 0, self.lookup(question, FIB_MATCH))
        spread = b"" if kind == ERROR else dict(attributes(data[12:])).get(RTA_MULTIPATH, b"")
        links = []
        while len(spread) >= 8:
            length, _, _, link = struct.unpack_from("=HBBi", spread)
            links.append(link)
            spread = spread[length + 3 & ~3:]
        return links

    def lookup(self, question, flags=0):
        is_six = ":" in question.remote
        size = 128 if is_six else 32
        body = struct.pack("=BBBBBBBBI", socket.AF_INET6 if is_six else socket.AF_INET, size,
                           size if question.local else 0, 0, 0, 0, 0, 0, flags)
        body += attribute(RTA_DST, packed(question.remote))
        if question.local:
            body += attribute(RTA_SRC, packed(question.local))
        if question.link:
            body += attribute(RTA_OIF, struct.pack("=I", question.link))
        if question.mark:
            body += attribute(RTA_MARK, struct.pack("=I", question.mark))
        body += attribute(RTA_UID, struct.pack("=I", question.uid))
        if question.protocol:
            body += attribute(RTA_IP_PROTO, struct.pack("=B", question.protocol))
        if question.local_port:
            body += attribute(RTA_SPORT, struct.pack("!H", question.local_port))
        if question.remote_port:
            body += attribute(RTA_DPORT, struct.pack("!H", question.remote_port))
        return body

    def route(self, question):
        (kind, data), = self.ask(GETROUTE, 0, self.lookup(question))
        if kind == ERROR:
            return Answer(error=-struct.unpack_from("=i", data)[0])
        found = dict(attributes(data[12:]))
        number = lambda key: struct.unpack("=I", found[key])[0] if key in found else 0
        gateway = text(found[RTA_GATEWAY]) if RTA_GATEWAY in found else None
        if RTA_VIA in found:
            gateway = text(found[RTA_VIA][2:])
        return Answer(
            link=number(RTA_OIF), source=text(found[RTA_PREFSRC]) if RTA_PREFSRC in found else None,
            gateway=gateway, table=number(RTA_TABLE), type=data[7])

    def is_local(self, address):
        return self.route(Question(address)).type == LOCAL

    def links(self):
        """By index."""
        links = {}
        for kind, data in self.ask(GETLINK, DUMP, struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0)):
            if kind != NEWLINK:
                continue
            index, flags = struct.unpack_from("=iI", data, 4)
            link = links[index] = Link(index, flags)
            for key, value in attributes(data[16:]):
                if key == IFLA_IFNAME:
                    link.name = value[:-1].decode()
                elif key == IFLA_LINK:
                    link.lower = struct.unpack("=I", value)[0]
                elif key == IFLA_MASTER:
                    link.master = struct.unpack("=I", value)[0]
                elif key == IFLA_OPERSTATE:
                    link.operstate = value[0]
        return links
