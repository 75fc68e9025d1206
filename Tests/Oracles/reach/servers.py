"""The world's servers. They send slowly to the cable's address, and at once to the Wi-Fi's.

So the same command is in the middle of its work when the cable is pulled, and ends when it is repeated.
"""

import contextlib
import os
import pwd
import socket
import ssl
import struct
import subprocess
import threading

import bed
from bed import PEER, PEER6, RUN, check, eventually, in_world

BODY = b"".join(b"%07d\n" % number for number in range(12_500))
PIECE, PAUSE = 2_000, 0.1
# The client has received a part when so many octets were sent.
BEGUN = 5 * PIECE
MULTIPATH = 262
SLOW = (*bed.LINKS["eth0"][:2], "127.")


def body_of(path, head):
    """The header of the answer and its body, as the path asks: /length, /chunked, /close or /wait.

    With a query, the server says that it will close the connection.
    """
    path, _, closes = path.partition("?")
    body, status, more = BODY, "200 OK", "Connection: close\r\n" if closes else ""
    for line in head.split("\r\n"):
        if line.lower().startswith("range: bytes="):
            first = int(line.split("=")[1].split("-")[0])
            body, status = BODY[first:], "206 Partial Content"
            more += f"Content-Range: bytes {first}-{len(BODY) - 1}/{len(BODY)}\r\n"
    if path == "/close":
        return "HTTP/1.0 200 OK\r\n\r\n", BODY
    if path in ("/chunked", "/events"):
        kind = "text/event-stream" if path == "/events" else "text/plain"
        return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n{more}\r\n", BODY
    return f"HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\n{more}Content-Length: {len(body)}\r\n\r\n", body


class Servers:
    """`begun` is set when a client has received a part of its answer."""

    def __init__(self):
        self.begun, self.over = threading.Event(), threading.Event()
        self.connections, self.processes = set(), {}
        self.context = self.visitor = None

    def listen(self):
        make_certificate()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{RUN}/server.pem")
        with bed.world():
            self.serve(PEER, 80)
            self.serve(PEER6, 80)
            self.serve(PEER, 443, self.context)
            self.serve(PEER, 8080, protocol=MULTIPATH)
        self.serve("127.0.0.1", 80)

    def serve(self, address, port, context=None, protocol=0):
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, proto=protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()

        def accept():
            while True:
                connection, peer = listener.accept()
                threading.Thread(target=self.answer, args=(connection, peer[0], context), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()

    def answer(self, connection, peer, context):
        self.connections.add(connection)
        try:
            if context:
                connection = context.wrap_socket(connection, server_side=True)
                self.connections.add(connection)
            head = b""
            while b"\r\n\r\n" not in head:
                received = connection.recv(65536)
                if not received:
                    return
                head += received
            self.send(connection, head, peer.startswith(SLOW))
            end(connection, context)
        except (OSError, ValueError):
            # The case is over: its connections were closed.
            pass
        finally:
            connection.close()
            self.connections.discard(connection)

    def send(self, connection, head, is_slow):
        head, _, rest = head.partition(b"\r\n\r\n")
        path = head.split()[1].decode()
        if path.startswith("/git/"):
            return self.git(connection, head.decode(), rest, is_slow)
        if path == "/wait" and is_slow:
            self.begun.set()
            self.over.wait()
            return
        header, body = body_of(path, head.decode())
        connection.sendall(header.encode())
        pieces = (body[at:at + PIECE] for at in range(0, len(body), PIECE))
        is_chunked = "chunked" in header
        if is_chunked:
            pieces = (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        self.trickle(connection, pieces, is_slow)
        if is_chunked:
            connection.sendall(b"0\r\n\r\n")

    def trickle(self, connection, pieces, is_slow):
        sent, over = 0, self.over
        for piece in pieces:
            connection.sendall(piece)
            sent += len(piece)
            if is_slow:
                if sent >= BEGUN:
                    self.begun.set()
                if over.wait(PAUSE):
                    return

    def git(self, connection, head, rest, is_slow):
        """git-http-backend, as a CGI program."""
        method, target, _ = head.split("\r\n")[0].split()
        path, _, query = target.partition("?")
        fields = {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in head.split("\r\n")[1:]}
        while len(rest) < int(fields.get("content-length", 0)):
            rest += connection.recv(65536)
        done = subprocess.run(["git", "http-backend"], input=rest, capture_output=True, env={
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": RUN, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": method, "CONTENT_TYPE": fields.get("content-type", ""),
            "GIT_PROTOCOL": fields.get("git-protocol", ""), "HTTP_CONTENT_ENCODING": fields.get("content-encoding", ""),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}).stdout
        header, _, body = done.partition(b"\r\n\r\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + header + b"\r\n\r\n")
        self.trickle(connection, (body[at:at + PIECE] for at in range(0, len(body), PIECE)), is_slow)

    def visit(self, address, port):
        """Downloads from a server of the machine, until it has sent a part. Returns whether it has."""
        if not self.visitor:
            with bed.world():
                visitor = socket.socket()
            try:
                visitor.connect((address, port))
            except OSError:
                return False
            self.connections.add(visitor)
            self.visitor = threading.Thread(target=self.read, args=(visitor,), daemon=True)
            self.visitor.start()
        return self.begun.is_set()

    def read(self, visitor):
        size, begun = 0, self.begun
        try:
            while part := visitor.recv(65536):
                if (size := size + len(part)) >= BEGUN:
                    begun.set()
            visitor.close()
        except OSError:
            pass

    def reset(self):
        """Ends all connections of a case."""
        self.over.set()
        for connection in list(self.connections):
            try:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            except OSError:
                pass
        self.connections.clear()
        self.visitor = None
        self.begun, self.over = threading.Event(), threading.Event()

    def start(self, name, port):
        """Starts a real server of the world, if it does not run yet."""
        if name in self.processes:
            return
        command = STARTERS[name]()
        with open(f"{RUN}/{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(in_world(command), stdout=log, stderr=log)
        check(eventually(lambda: is_open(port)), f"{name} does not start: see {RUN}/{name}.log")


def is_open(port):
    with bed.world():
        probe = socket.socket()
    with probe:
        probe.settimeout(2)
        return probe.connect_ex((PEER, port)) == 0


def has_client(port):
    """Whether a client of the cable's address has a connection to a server of the world."""
    command = in_world(["ss", "-Htn", "state", "established", "sport", f"= :{port}", "dst", bed.address("eth0")])
    return bool(subprocess.run(command, capture_output=True, text=True).stdout)


def end(connection, context):
    """Ends the answer as a server does: with TLS's own end, and after all octets."""
    # Not all clients answer TLS's end.
    connection.settimeout(1)
    if context:
        with contextlib.suppress(OSError):
            connection.unwrap()
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


def make_certificate():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", f"{RUN}/key.pem", "-out", f"{RUN}/certificate.pem", "-days", "2", "-subj", "/CN=reach",
                    "-addext", f"subjectAltName=IP:{PEER}"], check=True, capture_output=True)
    with open(f"{RUN}/server.pem", "w") as both:
        for name in ["key", "certificate"]:
            with open(f"{RUN}/{name}.pem") as file:
                both.write(file.read())


def sshd():
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{RUN}/host"], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{RUN}/home/key"], check=True)
    os.chown(f"{RUN}/home/key", bed.USER, bed.USER)
    with open(f"{RUN}/sshd_config", "w") as file:
        file.write(f"ListenAddress {PEER}\nHostKey {RUN}/host\nAuthorizedKeysFile {RUN}/home/key.pub\nStrictModes no\n"
                   "PermitRootLogin yes\nSubsystem sftp internal-sftp\nUsePAM no\nUseDNS no\nPidFile none\n")
    with open(f"{RUN}/ssh_config", "w") as file:
        file.write(f"Host *\nUser root\nIdentityFile {RUN}/home/key\nStrictHostKeyChecking no\n"
                   "UserKnownHostsFile /dev/null\nLogLevel ERROR\n")
    return ["/usr/sbin/sshd", "-D", "-e", "-f", f"{RUN}/sshd_config"]


def rsyncd():
    with open(f"{RUN}/rsyncd.conf", "w") as file:
        file.write(f"use chroot = no\n[files]\npath = {RUN}/files\n")
    return ["rsync", "--daemon", "--no-detach", f"--address={PEER}", f"--config={RUN}/rsyncd.conf"]


def postgres():
    binaries = "/usr/lib/postgresql/15/bin"
    os.makedirs(f"{RUN}/postgres")
    # It must be a user that has a name.
    user = pwd.getpwnam("postgres").pw_uid
    os.chown(f"{RUN}/postgres", user, user)
    user = bed.without_privileges([], user)
    subprocess.run([*user, f"{binaries}/initdb", "-D", f"{RUN}/postgres/data", "-A", "trust", "-U", "reach", "-N"],
                   check=True, capture_output=True)
    with open(f"{RUN}/postgres/data/pg_hba.conf", "a") as file:
        file.write("host all all 0.0.0.0/0 trust\n")
    return [*user, f"{binaries}/postgres", "-D", f"{RUN}/postgres/data", "-c", f"listen_addresses={PEER}",
            "-c", f"unix_socket_directories={RUN}/postgres", "-c", "fsync=off"]


def redis():
    return ["redis-server", "--bind", PEER, "--protected-mode", "no", "--save", "", "--dir", RUN]


def http2():
    return ["node", "Tests/Oracles/reach/programs/http2.mjs", PEER, f"{RUN}/key.pem", f"{RUN}/certificate.pem"]


STARTERS = {"sshd": sshd, "rsync": rsyncd, "postgres": postgres, "redis": redis, "http2": http2}
