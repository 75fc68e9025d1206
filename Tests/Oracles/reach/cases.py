"""The table of cases: unchanged programs, what happens to their link, and what they do then."""

import dataclasses
import shutil
import subprocess

from bed import PEER, PEER6, RUN
from servers import BODY

PYTHON = ["/usr/bin/python3"]
PROGRAMS = "Tests/Oracles/reach/programs"
OUT = f"{RUN}/home/out"
BEGUN = f"{RUN}/home/begun"
HTTP, HTTPS = f"http://{PEER}", f"https://{PEER}"
SSH = f"ssh -F {RUN}/ssh_config"
# scp has many requests under way, so its file must be larger than those.
LARGE = 60 * BODY
# A remote command that waits if the client came by the cable.
REMOTE = f"case $SSH_CONNECTION in 192.0.2.*) touch {BEGUN}; sleep 1000;; esac"
SQL = "select pg_sleep(case when inet_client_addr() <<= '192.0.2.0/24' then 1000 else 0 end), 'done'"

# Expectations.
ERROR = "error"  # The program ends with an error.
RETRIES = "retries"  # It tries again by itself, and its answer is complete.
COMPLETES = "completes"  # No connection is ended, and its answer is complete.
CUT = "cut"  # It takes the part for the whole, and exits with 0; newer versions may show an error.
WAITS = "waits"  # Its connection cannot be ended.


@dataclasses.dataclass
class Case:
    """A command under the guard. `begun` is "answer" (the server has sent a part), a port (there is a connection to
    it), or the path of a file. `again` is the next attempt, if that is another command.
    """
    name: str
    command: list
    expects: str = ERROR
    trouble: str = "pull"
    needs: tuple = ()
    server: tuple = ()
    begun: object = "answer"
    again: list = None
    answer: bytes = BODY
    is_quick: bool = False

    def missing(self):
        """The programs and Python modules that are not installed."""
        return [need for need in (self.needs or (self.command[0],)) if not is_installed(need)]


def is_installed(need):
    if need.startswith("python3-"):
        module = need.removeprefix("python3-")
        return subprocess.run([*PYTHON, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode == 0
    return bool(shutil.which(need, path="/usr/bin:/usr/sbin:/bin:/usr/lib/postgresql/15/bin"))


def script(name, *arguments):
    return [*PYTHON, f"{PROGRAMS}/{name}.py", *arguments]


def curl(url, *options):
    return ["curl", "-sS", *options, "-o", OUT, url]


def wget(url):
    return ["wget", "-nv", "-O", OUT, url]


def python(library, url, name, **more):
    needs = (f"python3-{library}",)
    return Case(f"{library}, {name}", script("download", library, url, OUT), needs=needs, **more)


def java(client, url, name, **more):
    return Case(f"Java {'HttpClient' if client == 'client' else 'URL'}, {name}", [
        "java", f"-Djavax.net.ssl.trustStore={RUN}/trust.p12", "-Djavax.net.ssl.trustStorePassword=changeit",
        "-cp", f"{RUN}/java", "Download", client, url, OUT], needs=("java", "javac"), **more)


def go(url, name, **more):
    return Case(f"Go (static), {name}", [f"{RUN}/go/download", url, OUT], needs=("go",), **more)


def node(url, name, **more):
    return Case(f"Node fetch, {name}", ["node", f"{PROGRAMS}/fetch.mjs", url, OUT], **more)


def ring(how, **more):
    return Case(f"io_uring, {how}", [f"{RUN}/ring", how, PEER, OUT], needs=("gcc",), **more)


def cases():
    guarded = [*downloads(), *sessions(), *libraries(), *retries(), *bystanders()]
    # A cut answer is cut by a reset of the server, too.
    resets = [dataclasses.replace(case, name=f"{case.name}, reset by the server", trouble="reset", is_quick=False)
              for case in guarded if case.expects == CUT]
    return guarded + resets


def downloads():
    return [
        Case("curl, waits", curl(f"{HTTP}/wait")),
        Case("curl, Content-Length", curl(f"{HTTP}/length"), is_quick=True),
        Case("curl, chunked", curl(f"{HTTP}/chunked")),
        Case("curl, HTTP/1.0", curl(f"{HTTP}/close")),
        Case("curl, TLS", curl(f"{HTTPS}/length")),
        Case("curl, TLS, HTTP/1.0", curl(f"{HTTPS}/close")),
        Case("curl, HTTP/2", curl(f"https://{PEER}:8443/", "--http2"), needs=("curl", "node"), server=("http2", 8443),
             begun=8443),
        Case("curl, SSE", curl(f"{HTTP}/events", "-N")),
        Case("curl, IPv6", curl(f"http://[{PEER6}]/length", "-g"), is_quick=True),
        Case("curl, no other way", curl(f"{HTTP}/length"), trouble="alone"),
        Case("wget, Content-Length", wget(f"{HTTP}/length"), RETRIES, is_quick=True),
        Case("wget, HTTP/1.0", wget(f"{HTTP}/close"), RETRIES),
        Case("wget, TLS", wget(f"{HTTPS}/length"), RETRIES),
        Case("wget, TLS, HTTP/1.0", wget(f"{HTTPS}/close"), RETRIES),
    ]


def sessions():
    sshd, rsync, slow = ("sshd", 22), ("rsync", 873), f"{REMOTE}; git-upload-pack"
    clone, ssh_url = ["git", "clone", "-q"], f"ssh://{PEER}{RUN}/git"
    psql = ["psql", "-h", PEER, "-U", "reach", "-d", "postgres", "-At"]
    scp, done = ["scp", "-q", "-F", f"{RUN}/ssh_config"], b"done\n"
    return [
        Case("ssh", [*SSH.split(), PEER, f"{REMOTE}; echo done"], needs=("ssh", "sshd"), server=sshd, begun=BEGUN,
             answer=done, is_quick=True),
        Case("scp", [*scp, "-l", "800", f"{PEER}:{RUN}/files/large", OUT], needs=("scp", "sshd"), server=sshd, begun=22,
             again=[*scp, f"{PEER}:{RUN}/files/large", OUT], answer=LARGE),
        Case("rsync over ssh", ["rsync", "-e", SSH, "--bwlimit=20", f"{PEER}:{RUN}/files/body", OUT],
             needs=("rsync", "sshd"), server=sshd, begun=22,
             again=["rsync", "-e", SSH, f"{PEER}:{RUN}/files/body", OUT]),
        Case("rsync, its own protocol", ["rsync", "--bwlimit=20", f"rsync://{PEER}/files/body", OUT], server=rsync,
             begun=873, again=["rsync", f"rsync://{PEER}/files/body", OUT]),
        Case("git clone, HTTP", [*clone, f"{HTTP}/git", OUT], answer=None),
        Case("git clone, ssh", [*clone, "-c", f"core.sshCommand={SSH}", "-u", slow, ssh_url, OUT],
             needs=("git", "sshd"), server=sshd, begun=BEGUN, answer=None),
        Case("psql, in a query", [*psql, "-c", f"\\! touch {BEGUN}", "-c", SQL], needs=("psql", "postgres"),
             server=("postgres", 5432), begun=BEGUN, answer=b"|done\n", is_quick=True),
        Case("psql, idle, next statement", ["sh", "-c", f'(sleep 5; echo "select \'done\';") | {" ".join(psql)}'],
             needs=("psql", "postgres"), server=("postgres", 5432), begun=5432, answer=done),
        Case("redis-cli subscribe", ["redis-cli", "-h", PEER, "subscribe", "news"],
             needs=("redis-cli", "redis-server"), server=("redis", 6379), begun=6379,
             again=["redis-cli", "-h", PEER, "echo", "done"], answer=done),
    ]


def libraries():
    long, waits, ends, parts = (f"{HTTP}/{path}" for path in ["length", "wait", "close", "chunked"])
    tls, tls_ends, tls_parts = (f"{HTTPS}/{path}" for path in ["length", "close", "chunked"])
    cut = {"expects": CUT}
    return [
        node(waits, "waits"), node(long, "Content-Length", is_quick=True), node(parts, "chunked"), node(tls, "TLS"),
        node(f"{long}?close", "Content-Length, Connection: close"),
        node(f"{parts}?close", "chunked, Connection: close", **cut),
        node(f"{tls_parts}?close", "TLS, chunked, Connection: close", **cut),
        node(ends, "HTTP/1.0", **cut), node(tls_ends, "TLS, HTTP/1.0", **cut),
        python("requests", tls, "TLS", **cut, is_quick=True),
        *(python(library, url, name) for library in ["requests", "httpx", "aiohttp"] for url, name in [
            (waits, "waits"), (long, "Content-Length"), (tls_parts, "TLS, chunked")]),
        python("httpx", tls, "TLS"), python("aiohttp", tls, "TLS"), python("urllib", tls, "TLS"),
        python("requests", ends, "HTTP/1.0"), python("httpx", ends, "HTTP/1.0"),
        python("aiohttp", ends, "HTTP/1.0", **cut),
        *(python(library, tls_ends, "TLS, HTTP/1.0", **cut) for library in ["requests", "httpx", "aiohttp", "urllib"]),
        go(waits, "waits"), go(long, "Content-Length"), go(tls, "TLS"), go(tls_ends, "TLS, HTTP/1.0"),
        java("client", long, "Content-Length"), java("client", tls, "TLS"), java("client", tls_ends, "TLS, HTTP/1.0"),
        java("url", long, "Content-Length"), java("url", tls, "TLS"), java("url", tls_ends, "TLS, HTTP/1.0"),
        ring("plain"), ring("direct", expects=WAITS),
        Case("waits only for input", script("plain", "input", f"{HTTP}/close", OUT), is_quick=True),
        Case("half-closed", script("plain", "half", f"{HTTP}/close", OUT)),
    ]


def retries():
    """The program's own next attempt, at once and after the dead route has stayed for 3 s."""
    again = curl(f"{HTTP}/length", "--retry", "3", "--retry-all-errors")
    return [
        Case("curl --retry", again, RETRIES),
        java("client", f"{HTTP}/wait", "waits", expects=RETRIES),
        java("url", f"{HTTP}/wait", "waits", expects=RETRIES),
        Case("curl --retry, gap of 3 s", again, RETRIES, "gap"),
        Case("wget, gap of 3 s", wget(f"{HTTP}/length"), RETRIES, "gap", is_quick=True),
        java("client", f"{HTTP}/wait", "gap of 3 s", expects=RETRIES, trouble="gap"),
        java("url", f"{HTTP}/wait", "gap of 3 s", expects=RETRIES, trouble="gap"),
    ]


def bystanders():
    """Connections that no guard may end, and processes that are not the command itself."""
    two = " & ".join(" ".join(curl(f"{HTTP}/length")) for _ in range(2)).replace(OUT, OUT + "2", 1)
    orphan = f'(setsid sh -c "{" ".join(curl(f"{HTTP}/length"))}; echo \\$? >{OUT}.status" &); ' \
             f'until [ -s {OUT}.status ]; do sleep 0.1; done; exit "$(cat {OUT}.status)"'
    return [
        Case("curl, flap of 1 s", curl(f"{HTTP}/length"), COMPLETES, "flap", is_quick=True),
        Case("wget, TLS, flap of 1 s", wget(f"{HTTPS}/length"), COMPLETES, "flap"),
        python("requests", f"{HTTPS}/length", "TLS, flap of 1 s", expects=COMPLETES, trouble="flap"),
        go(f"{HTTP}/length", "flap of 1 s", expects=COMPLETES, trouble="flap"),
        Case("Multipath TCP", script("plain", "multipath", f"http://{PEER}:8080/close", OUT), COMPLETES, "multipath",
             is_quick=True),
        Case("loopback", curl("http://127.0.0.1/length"), COMPLETES),
        Case("accepted connection", script("plain", "serve", "8000", OUT), COMPLETES, "away", begun="visitor",
             answer=None),
        Case("two in a shell", ["sh", "-c", f"{two} & wait $! || exit 56"]),
        Case("an orphan", ["sh", "-c", orphan], needs=("curl",)),
        Case("curl, without a guard", curl(f"{HTTP}/length"), WAITS, "unguarded", is_quick=True),
    ]
