"""Accepts connections as systemd does for a socket unit with Accept=yes, by the unit's settings.

systemd-socket-activate(1) knows neither DeferAcceptSec nor MaxConnections.
"""

import pathlib
import socket
import subprocess
import sys

unit, *command = sys.argv[1:]
lines = pathlib.Path(unit).read_text().splitlines()
settings = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
host, port = settings["ListenStream"].rsplit(":", 1)
hours = int(settings.get("DeferAcceptSec", "0h").removesuffix("h"))
listener = socket.create_server((host, int(port)), backlog=128)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, hours * 3600)
print("listening", flush=True)
running = []
while True:
    connection, _ = listener.accept()
    running = [process for process in running if process.poll() is None]
    if len(running) < int(settings["MaxConnections"]):
        running.append(subprocess.Popen(command, stdin=connection, stdout=connection))
    connection.close()
