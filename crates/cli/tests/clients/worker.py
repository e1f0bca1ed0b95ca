"""A worker agent of the SDK that answers mentions, until it is ended."""

import asyncio
import contextlib
import hashlib
import io
import sys

from sdk import Worker, start


async def main(carrier, host, port, token):
    worker = Worker("pyworker")
    with contextlib.redirect_stdout(io.StringIO()):
        await start(worker, carrier, host, int(port), hashlib.sha256(token.encode()).hexdigest())
    print("ready", flush=True)
    with contextlib.redirect_stdout(io.StringIO()):
        await asyncio.sleep(120)


asyncio.run(main(*sys.argv[1:]))
