"""A machine with a cable and a Wi-Fi, the world, and a connd.

The machine is the network namespace that this process is in.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time

DEADLINE = 30  # seconds: limits a hang, nothing is measured
RUN = "/run/reach"
SOCKET = "/run/connd/connd.sock"
PEER = "203.0.113.9"
USER, CONND_USER = 65534, 65533
LINKS = {"eth0": ("192.0.2", 100), "wlan0": ("198.51.100", 600)}
CONFIGURATION = """links:
  - {match: eth0, medium: wired}
  - {match: wlan0, medium: wifi}
"""
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    pass


def check(condition, *words):
    if not condition:
        raise Failure(" ".join(str(word) for word in words))


def eventually(holds, deadline=DEADLINE):
    """Polls for what sends no event, until the deadline at most."""
    end = time.monotonic() + deadline
    while not (result := holds()) and time.monotonic() < end:
        time.sleep(0.05)
    return result


def ip(*lines, world=False):
    """Makes changes, which have taken effect when it returns."""
    subprocess.run(["ip", *(["-netns", "world"] if world else []), "-batch", "-"], check=True,
                   input="\n".join(lines) + "\n", text=True)


def address(link):
    return f"{LINKS[link][0]}.2"


def default(link):
    network, metric = LINKS[link]
    return f"default via {network}.1 dev {link} metric {metric}"


def make():
    # Addresses can be used immediately.
    for name in ["all", "default"]:
        with open(f"/proc/sys/net/ipv6/conf/{name}/accept_dad", "w") as file:
            file.write("0")
    subprocess.run(["ip", "netns", "add", "world"], check=True)
    ip("link set lo up", f"address add {PEER}/32 dev lo", world=True)
    for link, (network, _) in LINKS.items():
        ip(f"link add {link} type veth peer name {link} netns world", f"link set {link} up",
           f"address add {network}.2/24 dev {link}")
        ip(f"link set {link} up", f"address add {network}.1/24 dev {link}", world=True)
        ip(f"route add {default(link)}")


def pull(link):
    """Takes the carrier."""
    ip(f"link set {link} down", world=True)


def leave(link):
    """Removes the route and the address, as a network manager does."""
    ip(f"route del {default(link)}", f"address del {address(link)}/24 dev {link}")


def plug(link):
    """Undoes both."""
    ip(f"link set {link} up", world=True)
    ip(f"address replace {address(link)}/24 dev {link}", f"route replace {default(link)}")


def in_world(command):
    return ["nsenter", "--net=/run/netns/world", *command]


def without_privileges(command, user=USER):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", *command]


@contextlib.contextmanager
def world():
    """Sockets that this thread makes meanwhile are in the world."""
    own = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    other = os.open("/run/netns/world", os.O_RDONLY)
    try:
        check(libc.setns(other, CLONE_NEWNET) == 0, "setns")
        yield
    finally:
        libc.setns(own, CLONE_NEWNET)
        os.close(own), os.close(other)


class Connd:
    """Runs without privileges, as the owner of its socket's directory."""

    def __init__(self, binary, connctl):
        os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
        os.chown(os.path.dirname(SOCKET), CONND_USER, CONND_USER)
        with open(f"{RUN}/connd.yaml", "w") as file:
            file.write(CONFIGURATION)
        self.connctl = connctl
        with open(f"{RUN}/connd.log", "a") as log:
            self.process = subprocess.Popen(
                without_privileges([binary, "--socket", SOCKET, "--config", f"{RUN}/connd.yaml"], CONND_USER),
                env={"PATH": os.environ["PATH"]}, stdout=log, stderr=log)
        check(eventually(lambda: self.uses("eth0")), f"connd does not start: see {RUN}/connd.log")

    def uses(self, link):
        done = subprocess.run([self.connctl, "status", "--json"], capture_output=True, text=True)
        return done.returncode == 0 and f'"{link}"' in done.stdout

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)
