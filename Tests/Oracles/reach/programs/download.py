"""download.py LIBRARY URL FILE: downloads with a library, as its first example does."""

import sys

library, url, file = sys.argv[1:]


def with_requests():
    import requests
    return requests.get(url).content


def with_httpx():
    import httpx
    return httpx.get(url, timeout=None).content


def with_urllib():
    import urllib.request
    return urllib.request.urlopen(url).read()


def with_aiohttp():
    import asyncio

    import aiohttp

    async def download():
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.read()
    return asyncio.run(download())


body = globals()[f"with_{library}"]()
with open(file, "wb") as out:
    out.write(body)
