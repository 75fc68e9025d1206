"""Traffic for diagnoses.

    traffic.py serve NAME_SERVER[,NAME_SERVER...] PORT...
    traffic.py talk HOST:PORT...
    traffic.py names NAME_SERVER

serve: servers that answer each request, and DNS servers at these addresses. talk: connections to
each host with small requests, and with uploads. names: a DNS query five times a second. Each prints
`ready`.
"""
import asyncio
import socket
import sys

SMALL, LARGE = b"x" * 100, b"x" * 20_000


async def echo(reader, writer):
    try:
        while data := await reader.read(65536):
            # The size of the answer is that of a request, whatever was sent.
            writer.write(data[:100])
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Names(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        # A little later, as over a real network.
        asyncio.get_running_loop().call_later(0.15, self.transport.sendto, data, peer)


async def serve(arguments):
    loop = asyncio.get_running_loop()
    for port in arguments[1:]:
        server = await asyncio.start_server(echo, None, int(port), backlog=200)
        asyncio.ensure_future(server.serve_forever())
    for address in arguments[0].split(","):
        await loop.create_datagram_endpoint(Names, local_addr=(address, 53))
    print("ready", flush=True)
    await asyncio.Event().wait()


async def exchange(host, port, data, pause, life):
    """Sends data and reads what comes back, for the life of a connection."""
    loop = asyncio.get_running_loop()
    while True:
        end = loop.time() + life
        writer = None
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while loop.time() < end:
                writer.write(data)
                await reader.read(65536)
                await asyncio.sleep(pause)
        except OSError:
            await asyncio.sleep(0.2)
        finally:
            if writer:
                writer.close()


async def talk(hosts):
    for text in hosts:
        host, port = text.rsplit(":", 1)
        host = host.strip("[]")
        for number in range(3):
            asyncio.ensure_future(exchange(host, int(port), SMALL, 0.1, 60 if number else 1))
        for number in range(2):
            asyncio.ensure_future(exchange(host, int(port), LARGE, 0.2, 60))
    print("ready", flush=True)
    await asyncio.Event().wait()


async def query(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect((address, 53))
        client.send(b"query")
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 512), 5)
        except (OSError, TimeoutError, asyncio.TimeoutError):
            pass


async def names(servers):
    print("ready", flush=True)
    while True:
        asyncio.ensure_future(query(servers[0]))
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    asyncio.run({"serve": serve, "talk": talk, "names": names}[command](arguments))
