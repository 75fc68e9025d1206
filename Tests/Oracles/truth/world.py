"""The namespaces of one world, and the operations that change them."""

import os
import socket
import struct
import subprocess
import time

from kernel import Kernel, Namespace
from netfilter import RULES


class Ip:
    """One `ip` that takes commands line by line, without the time of a new process."""

    def __init__(self, namespace, family):
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "ip", *([f"-{family}"] if family else []), "-netns", namespace, "-force", "-batch", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __call__(self, line):
        """Returns when it is done, with the error of the kernel or `ip`."""
        # The second line's answer shows that the first one is done.
        self.process.stdin.write(f"{line}\nlink show dev lo\n")
        self.process.stdin.flush()
        told = []
        for answer in self.process.stdout:
            if answer.startswith("1: lo:"):
                self.process.stdout.readline()
                return " ".join(told)
            if not answer.startswith("Command failed"):
                told.append(answer.strip())
        raise RuntimeError(f"ip ended at: {line}")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def is_known(kind):
    """Whether this kernel has such links."""
    namespace = f"connd-truth-probe-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        return subprocess.run(["ip", "-netns", namespace, "link", "add", "probe", "type", kind],
                              stderr=subprocess.DEVNULL).returncode == 0
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=True)


class World:
    """`pump` lets traffic flow for some seconds."""

    def __init__(self, name, pump=time.sleep):
        self.name, self.pump = name, pump
        self.namespaces, self.ips = {}, {}
        self.kernel = None
        self.log = []  # every operation, and its answer

    def full(self, namespace):
        return f"{self.name}-{namespace}"

    def do(self, operation):
        """One operation: `[namespace, line of ip]`, or a verb with its parameters."""
        verb, *parameters = operation
        method = getattr(self, f"do_{verb}", None)
        if method:
            said = method(*parameters)
        else:
            line, = parameters
            family = 6 if line.startswith("-6 ") else 4 if line.startswith("rule") else 0
            said = self.ip(verb, family)(line.removeprefix("-6 ").format_map(Names(self)))
        self.log.append((time.monotonic(), operation, said))
        return said

    def ip(self, namespace, family=0):
        key = namespace, family
        if key not in self.ips:
            self.ips[key] = Ip(self.full(namespace), family)
        return self.ips[key]

    def do_namespace(self, namespace):
        subprocess.run(["ip", "netns", "add", self.full(namespace)], check=True)
        self.namespaces[namespace] = Namespace(self.full(namespace))
        if namespace == "M":
            self.kernel = Kernel(self.namespaces[namespace])

    def do_sysctl(self, namespace, key, value):
        with self.namespaces[namespace]:
            try:
                with open(f"/proc/sys/net/{key}", "w") as file:
                    file.write(str(value))
            except OSError as error:
                return str(error)

    def do_neighbours(self, namespace, settings):
        """Settings of neighbour discovery, for each existing link."""
        with self.namespaces[namespace]:
            for inet in ["ipv4", "ipv6"]:
                for link in os.listdir(f"/proc/sys/net/{inet}/neigh"):
                    for key, value in settings.items():
                        with open(f"/proc/sys/net/{inet}/neigh/{link}/{key}", "w") as file:
                            file.write(str(value))

    def do_nft(self, namespace, name, values={}):
        """Passes these rules to nft(8), in one transaction."""
        rules = RULES[name].format_map(values)
        with self.namespaces[namespace]:
            nft = subprocess.run(["nft", "-f", "-"], input=rules, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return nft.stdout.strip()

    def do_pause(self, milliseconds):
        self.pump(milliseconds / 1000)

    def do_ra(self, namespace, link, lifetime, preference, prefix, valid):
        """A router advertisement: `lifetime` as a default router, and a prefix for addresses."""
        advertisement = struct.pack("!BBHBBHII", 134, 0, 0, 64, preference << 3, lifetime, 0, 0)
        if prefix:
            advertisement += struct.pack("!BBBBIII", 3, 4, 64, 0xc0, valid, valid, 0)
            advertisement += socket.inet_pton(socket.AF_INET6, prefix)
        with self.namespaces[namespace]:
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sender:
                sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
                index = socket.if_nametoindex(link)
                sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
                try:
                    sender.sendto(advertisement, ("ff02::1", 0, 0, index))
                except OSError as error:
                    return str(error)

    def show(self, *words):
        """The output of `ip`, for debugging."""
        return subprocess.run(
            ["ip", "-netns", self.full("M"), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.strip()

    def remove(self):
        for ip in self.ips.values():
            ip.end()
        if self.kernel:
            self.kernel.close()
        for name, namespace in self.namespaces.items():
            namespace.close()
            subprocess.run(["ip", "netns", "del", self.full(name)], stderr=subprocess.DEVNULL)
        self.ips, self.namespaces, self.kernel = {}, {}, None


class Names(dict):
    """Replaces names with the namespaces' full names."""

    def __init__(self, world):
        self.world = world

    def __missing__(self, namespace):
        return self.world.full(namespace)
