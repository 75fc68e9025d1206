"""Name servers that answer queries for IPv4 addresses, all with the same one.

Names that begin with `missing` do not exist.

Arguments: the answer, and ADDRESS=LINK for each server. A server answers only queries that arrive
on its own link, as a provider's does. It drops others.
"""

import select
import socket
import struct
import sys

IP_PKTINFO = 8


def bound(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    server.bind((address, 53))
    return server


def answer(query, address):
    end = 12
    while query[end]:
        end += query[end] + 1
    end += 5
    records = b""
    if query[end - 4 : end - 2] == struct.pack("!H", 1):
        records = struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(address)
    is_missing = query[13:].startswith(b"missing")
    if is_missing:
        records = b""
    counts = struct.pack("!HHHH", 1, 1 if records else 0, 0, 0)
    flags = b"\x81\x83" if is_missing else b"\x81\x80"  # NXDOMAIN is 3
    return query[:2] + flags + counts + query[12:end] + records


links = {}
for argument in sys.argv[2:]:
    place, link = argument.split("=")
    links[bound(place)] = socket.if_nametoindex(link)
print("ready", flush=True)
while True:
    for server in select.select(list(links), [], [])[0]:
        query, control, _, client = server.recvmsg(4096, 64)
        if struct.unpack_from("i", control[0][2])[0] == links[server]:
            server.sendto(answer(query, sys.argv[1]), client)
