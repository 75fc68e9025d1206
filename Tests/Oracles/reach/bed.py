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
PEER, PEER6 = "203.0.113.9", "2001:db8:9::9"
USER, CONND_USER = 65534, 65533
LINKS = {"eth0": ("192.0.2.", "2001:db8:1::", 100), "wlan0": ("198.51.100.", "2001:db8:2::", 600)}
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
    return f"{LINKS[link][0]}2"


def addresses(link, end):
    return [f"{LINKS[link][0]}{end}/24", f"{LINKS[link][1]}{end}/64"]


def defaults(link):
    *networks, metric = LINKS[link]
    return [f"default via {network}1 dev {link} metric {metric}" for network in networks]


def make():
    subprocess.run(["ip", "netns", "add", "world"], check=True)
    for namespace in [contextlib.nullcontext(), world()]:
        with namespace:
            for name in ["all", "default"]:
                # Addresses can be used immediately, and the world keeps its own.
                for key, value in [("accept_dad", 0), ("keep_addr_on_down", 1)]:
                    with open(f"/proc/sys/net/ipv6/conf/{name}/{key}", "w") as file:
                        file.write(str(value))
    ip("link set lo up", f"address add {PEER}/32 dev lo", f"address add {PEER6}/128 dev lo", world=True)
    for link in LINKS:
        ip(f"link add {link} type veth peer name {link} netns world")
        ip(*(f"address add {address} dev {link}" for address in addresses(link, 1)), world=True)
        plug(link)


def pull(link):
    """Takes the carrier."""
    ip(f"link set {link} down", world=True)


def leave(link):
    """Removes the routes and the addresses, as a network manager does."""
    ip(*(f"route del {route}" for route in defaults(link)),
       *(f"address del {address} dev {link}" for address in addresses(link, 2)))


def plug(link):
    """Undoes both."""
    ip(f"link set {link} up", world=True)
    ip(f"link set {link} up", *(f"address replace {address} dev {link}" for address in addresses(link, 2)),
       *(f"route replace {route}" for route in defaults(link)))


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
