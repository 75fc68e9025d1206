"""echo.py PORT: sends back what it receives, on any number of connections. Prints "ready"."""

import asyncio
import sys


async def echo(reader, writer):
    try:
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(echo, "0.0.0.0", int(sys.argv[1]), backlog=2048)
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
