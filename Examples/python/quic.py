#!/usr/bin/env python3
"""A QUIC connection that moves when connd says so: from the cable to Wi-Fi during a transfer.

    quic.py serve ADDRESS:PORT          # sends as many bytes as a client asks for
    quic.py fetch ADDRESS:PORT BYTES    # receives them, and prints what happened

Needs aioquic, which moves a connection by sending from another address (RFC 9000, section 9). The
socket of aioquic is not bound to an address, so each packet uses the kernel's current path.
"""

import argparse
import asyncio
import datetime
import ipaddress
import logging
import os
import sys
import time

import grpc
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived
from connectivity.v1 import connectivity_pb2 as pb
from connectivity.v1 import connectivity_pb2_grpc as rpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

CONND = os.environ.get("CONND_SOCKET", "/run/connd/connd.sock")
NAMESPACE = os.stat("/proc/self/ns/net").st_ino
UDP = 17


class Guard:
    """Guards one QUIC connection, and moves it when connd says so. Does nothing without connd."""

    def __init__(self, protocol, remote, connd=CONND):
        self._protocol = protocol
        self._flow = pb.Flow(id=1, remote=remote[0], remote_port=remote[1], protocol=UDP, migrates=True)
        self._is_lost = False  # whether the next path is the one to move to
        self.answered = asyncio.Event()
        self._connd = connd
        self._task = asyncio.create_task(self._follow())

    def close(self):
        self._task.cancel()

    async def _follow(self):
        async with grpc.aio.insecure_channel(f"unix:{self._connd}") as channel:
            while True:
                call = rpc.ConnectivityStub(channel).Guard(wait_for_ready=True)
                try:
                    await call.write(pb.GuardRequest(add=self._flow))
                    async for answer in call:
                        if answer.network_namespace in (0, NAMESPACE):
                            self._heed(answer)
                except grpc.aio.AioRpcError:
                    logging.info("connd is gone")
                await asyncio.sleep(1)

    def _heed(self, answer):
        # After a restart, connd compares with what it last reported about the flow.
        self._flow.since_generation = answer.generation
        event = answer.WhichOneof("event")
        if event == "path":
            self._flow.known_path.CopyFrom(answer.path)
            self.answered.set()
            if self._is_lost and answer.path.status == pb.PATH_STATUS_SATISFIED:
                self._move(answer.path)
            elif not self._is_lost:
                logging.info("guarded over %s", answer.path.interface or "no link")
        elif event == "invalidation":
            invalidation = answer.invalidation
            self._flow.known_path.CopyFrom(invalidation.path)
            is_known = invalidation.reason in pb.InvalidationReason.values()  # A newer connd may have others.
            reason = pb.InvalidationReason.Name(invalidation.reason) if is_known else "changed"
            logging.info(
                "%s%s", reason.removeprefix("INVALIDATION_REASON_"), ": migrate" if invalidation.migrate else "")
            if invalidation.migrate and invalidation.path.status == pb.PATH_STATUS_SATISFIED:
                self._move(invalidation.path)
            elif invalidation.migrate:
                self._is_lost = True
            elif invalidation.severity == pb.INVALIDATION_SEVERITY_DESTROY:
                self._protocol.close()
        elif event == "refused":
            logging.warning("not guarded: %s", answer.refused.message)

    def _move(self, path):
        """Sends a packet on the new path, so that the peer learns the address (RFC 9000, section 9.2).
        The new connection ID hides from observers that the connection is the same (section 9.5)."""
        self._is_lost = False
        logging.info("moves to %s over %s", path.source, path.interface)
        self._protocol.change_connection_id()
        asyncio.ensure_future(self._protocol.ping())


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.received, self.is_over = 0, asyncio.Event()
        self._last = None
        self.longest_pause = 0.0

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - (self._last or now))
            self._last = now
            if not self.received:
                logging.info("receives")
            self.received += len(event.data)
        if isinstance(event, ConnectionTerminated) or (isinstance(event, StreamDataReceived) and event.end_stream):
            self.is_over.set()


class Server(QuicConnectionProtocol):
    """Sends as many bytes as the client asks for, one megabyte a second."""

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.end_stream:
            asyncio.ensure_future(self._send(event.stream_id, int(event.data)))

    async def _send(self, stream, rest):
        while rest > 0:
            part = min(rest, 10_000)
            rest -= part
            self._quic.send_stream_data(stream, bytes(part), end_stream=rest == 0)
            self.transmit()
            await asyncio.sleep(0.01)


def certificate():
    """Makes a certificate for the demonstration. The client does not verify it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "quic.py")])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
              .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
              .not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256()))
    return signed, key


async def run_server(host, port):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["quic.py"])
    configuration.certificate, configuration.private_key = certificate()
    await serve(host, port, configuration=configuration, create_protocol=Server)
    logging.info("listening")
    await asyncio.Event().wait()


async def run_client(host, port, size, idle):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["quic.py"], verify_mode=0, idle_timeout=idle)
    async with connect(host, port, configuration=configuration, create_protocol=Client) as client:
        guard = Guard(client, (host, port))
        try:
            await asyncio.wait_for(guard.answered.wait(), 5)
        except asyncio.TimeoutError:
            logging.info("not guarded")
        reader, writer = await client.create_stream()
        writer.write(str(size).encode())
        writer.write_eof()
        await client.is_over.wait()
        guard.close()
        logging.info("received %d of %d bytes, longest pause %.3f s", client.received, size, client.longest_pause)
        return 0 if client.received == size else 1


def address_and_port(text):
    host, _, port = text.rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected 192.0.2.1:4433 or [2001:db8::1]:4433") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve").add_argument("address", type=address_and_port)
    fetch = commands.add_parser("fetch")
    fetch.add_argument("address", type=address_and_port)
    fetch.add_argument("bytes", type=int)
    fetch.add_argument("--idle", type=float, default=60, help="the idle timeout of the connection, in seconds")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    logging.getLogger("quic").setLevel(logging.WARNING)
    if arguments.command == "serve":
        asyncio.run(run_server(*arguments.address))
    return asyncio.run(run_client(*arguments.address, arguments.bytes, arguments.idle))


if __name__ == "__main__":
    sys.exit(main())
