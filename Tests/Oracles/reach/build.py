"""Builds what a case runs, once."""

import os
import subprocess

from bed import RUN

PROGRAMS = "Tests/Oracles/reach/programs"


def prepare(case):
    for need, make in MAKERS.items():
        if need in case.needs or need == case.command[0]:
            make()


def once(function):
    done = []

    def call():
        if not done:
            function()
            done.append(True)
    return call


@once
def java():
    subprocess.run(["javac", "-d", f"{RUN}/java", f"{PROGRAMS}/Download.java"], check=True)
    subprocess.run(["keytool", "-importcert", "-noprompt", "-storetype", "PKCS12", "-storepass", "changeit",
                    "-alias", "reach", "-file", f"{RUN}/certificate.pem", "-keystore", f"{RUN}/trust.p12"],
                   check=True, capture_output=True)


@once
def go():
    environment = os.environ | {"CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": ""}
    subprocess.run(["go", "build", "-o", f"{RUN}/go/download", f"{PROGRAMS}/download.go"], check=True, env=environment)


@once
def ring():
    flags = ["-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", f"{RUN}/ring", f"{PROGRAMS}/ring.c", "-luring"], check=True)


@once
def repository():
    """A repository whose pack is as large as the other answers."""
    work, git = f"{RUN}/git", ["git", "-c", "user.name=reach", "-c", "user.email=reach@example.org"]
    subprocess.run([*git, "init", "-q", work], check=True)
    with open(f"{work}/file", "wb") as file:
        file.write(os.urandom(100_000))
    subprocess.run([*git, "-C", work, "add", "file"], check=True)
    subprocess.run([*git, "-C", work, "commit", "-q", "-m", "file"], check=True)


MAKERS = {"javac": java, "go": go, "gcc": ring, "git": repository}
