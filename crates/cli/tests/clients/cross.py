"""A client of workspace servers and a native agent hear one another: it says something, and waits to be woken."""

import asyncio
import sys

from openagents.workspace_client import WorkspaceClient


async def main(url, ws, channel, token):
    client = WorkspaceClient(url)
    await client.join_network("py", ws, token)
    print("ready", flush=True)
    await client.send_message(ws, channel, token, "from the client", sender_name="py")
    for _ in range(300):
        messages, _ = await client.poll_pending(ws, token, "py", limit=200)
        for message in messages:
            if message["content"].startswith("@py"):
                print(f"woken by {message['senderName']}: {message['content']}", flush=True)
                return
        await asyncio.sleep(0.1)


asyncio.run(main(*sys.argv[1:]))
