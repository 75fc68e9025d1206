"""A machine with a cable, a Wi-Fi and a modem to the world, a connd, and programs that watch it.

The machine is the network namespace that this process is in.
"""

import os
import queue
import signal
import socket
import subprocess
import threading
import time

DEADLINE = 30  # seconds: limits a hang, nothing is measured
SOCKET = "/run/connd/connd.sock"
PEER = "203.0.113.9"
LINKS = {"eth0": ("192.0.2", 100), "wlan0": ("198.51.100", 600), "wwan0": ("10.64.0", 700)}
CONFIGURATION = """links:
  - {match: eth0, medium: wired}
  - {match: wlan0, medium: wifi}
  - {match: wwan0, medium: cellular}
"""
SERVER = """
import http.server
http.server.ThreadingHTTPServer(("0.0.0.0", 80), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


class Failure(Exception):
    pass


def check(condition, *words):
    if not condition:
        raise Failure(" ".join(str(word) for word in words))


def ip(*lines, world=False):
    """Makes changes, which have taken effect when it returns."""
    subprocess.run(["ip", *(["-netns", "world"] if world else []), "-batch", "-"], check=True,
                   input="\n".join(lines) + "\n", text=True)


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
    command = ["ip", "netns", "exec", "world", "python3", "-c", SERVER]
    subprocess.Popen(command, cwd="/run/gio", stderr=subprocess.DEVNULL)
    check(eventually(reaches_peer), "the world's server does not answer")


def pull(link):
    ip(f"link set {link} down", world=True)


def plug(link):
    ip(f"link set {link} up", world=True)
    ip(f"route replace {default(link)}")


def reaches_peer():
    """Whether curl gets an answer from the world."""
    done = subprocess.run(["curl", "--silent", "--output", "/dev/null", "--connect-timeout", "2", f"http://{PEER}/"])
    return done.returncode == 0


def eventually(holds):
    """Polls for what sends no event, at the deadline at most."""
    end = time.monotonic() + DEADLINE
    while not (result := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return result


class Connd:
    def __init__(self, binary):
        self.binary = binary
        with open("/run/gio/connd.yaml", "w") as file:
            file.write(CONFIGURATION)

    def start(self):
        with open("/run/gio/connd.log", "a") as log:
            self.process = subprocess.Popen(
                [self.binary, "--socket", SOCKET, "--config", "/run/gio/connd.yaml"],
                env={"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": "/run/connd"}, stdout=log, stderr=log)
        check(eventually(self.answers), "connd does not start: see /run/gio/connd.log")

    def answers(self):
        """Whether connd accepts a connection and sends its settings."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(DEADLINE)
            try:
                connection.connect(SOCKET)
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
                return bool(connection.recv(1))
            except OSError:
                return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)

    def suspend(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def connections(self):
        """The number of connections to its socket."""
        with open("/proc/net/unix") as file:
            # St 03 is SS_CONNECTED.
            return sum(line.endswith(f" {SOCKET}\n") and line.split()[5] == "03" for line in file)


class Program:
    """A program with output that is read line by line as it comes."""

    def __init__(self, command, **variables):
        own = "GIO_", "CONND_", "XDG_"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(own)}
        self.process = subprocess.Popen(command, env=environment | variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.command, self.lines, self.seen = command, queue.Queue(), []
        self.errors = ""
        self.threads = [threading.Thread(target=read, daemon=True) for read in [self.read, self.read_errors]]
        for thread in self.threads:
            thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def await_line(self, beginning, deadline=DEADLINE):
        """Returns the next line that begins so, and skips the others."""
        end = time.monotonic() + deadline
        while True:
            try:
                line = self.lines.get(timeout=max(end - time.monotonic(), 0.001))
            except queue.Empty:
                raise Failure(f"{self.command} has not printed '{beginning}', but {self.seen[-5:]}") from None
            if line is None:
                self.end()
                raise Failure(f"{self.command} ended before '{beginning}': {self.seen[-5:]} {self.errors}")
            self.seen.append(line)
            if line.startswith(beginning):
                return line

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, answer):
        self.say(line)
        return self.await_line(answer)

    def state(self):
        """The status after all waiting events."""
        return self.ask("state", "state ").removeprefix("state ")

    def reach(self, host, command="reach"):
        return self.ask(f"{command} {host}", f"reach {host} ").removeprefix(f"reach {host} ")

    def end(self):
        """Ends it, and checks that nothing was wrong with it."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(DEADLINE)
        for thread in self.threads:
            thread.join(DEADLINE)
        check(status == 0 and not self.errors, self.command, "ended with", status, self.errors)


def figures(program):
    """The microseconds and KiB of a watcher's first line."""
    words = next(line for line in program.seen if line.startswith("monitor ")).split()
    return int(words[2]), int(words[4])
