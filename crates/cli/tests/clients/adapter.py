"""The package's adapter loop, unchanged: what an adapter of a coding agent stands on."""

import asyncio

import aiohttp
from openagents.adapters.base import BaseAdapter
from openagents.workspace_client import WorkspaceClient
from row import run, until


class Echo(BaseAdapter):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.handled, self.actions, self.hold = [], [], None

    async def _on_control_action(self, action, payload):
        self.actions.append(action)

    async def _handle_message(self, msg):
        self.handled.append(msg["content"])
        await self._auto_title_channel(msg["sessionId"], msg["content"])
        if "fail" in msg["content"]:
            raise RuntimeError("as it was told")
        if self.hold:
            await self.hold.wait()
        await self._send_status(msg["sessionId"], "working")
        if "file" in msg["content"]:
            kept = await self.client.upload_file(
                self.workspace_id, self.token, "out.txt", b"out", "text/plain", f"openagents:{self.agent_name}"
            )
            self.track_uploaded_file(
                msg["sessionId"], {"fileId": kept["id"], "filename": "out.txt", "contentType": "text/plain"}
            )
        await self._send_response(msg["sessionId"], f"echo: {msg['content']}")


async def main(row, url):
    client = WorkspaceClient(url)
    made = await client.create_workspace("echo", "Loop")
    ws, token, channel = made.workspace_id, made.token, made.channel_name
    await client.join_network("echo", ws, token)

    async def ask(text):
        await client.send_message(ws, channel, token, text, sender_type="human", sender_name="user")

    async def said():
        return await client.poll_messages(ws, channel, token, limit=200)

    async def answered(text):
        return await until(lambda: has(text))

    async def has(text):
        return next((m for m in await said() if m["content"] == text), None)

    async def control(**payload):
        event = {
            "type": "workspace.agent.control", "source": "human:user", "target": "openagents:echo", "payload": payload,
            "visibility": "direct", "network": ws,
        }
        async with aiohttp.ClientSession() as web:
            async with web.post(f"{url}/v1/events", json=event, headers={"X-Workspace-Token": token}) as answer:
                assert answer.status == 200, await answer.text()

    await ask("from before")
    adapter = Echo(ws, channel, token, "echo", endpoint=url)
    running = asyncio.create_task(adapter.run())

    with row.call("starts and beats"):
        await until(lambda: adapter._running and adapter._last_event_id)
    with row.call("skips what was said before"):
        await asyncio.sleep(0.5)
        assert adapter.handled == [], adapter.handled
    with row.call("handles what a person asks"):
        await ask("what is up")
        await until(lambda: "what is up" in adapter.handled)
    with row.call("answers"):
        assert (await answered("echo: what is up"))["senderName"] == "echo"
    with row.call("posts its status"):
        assert any(m["messageType"] == "status" and m["content"] == "working" for m in await said())
    with row.call("titles the session"):
        info = await client.get_session(ws, channel, token)
        assert info["title"] not in ("Session 1", channel), info
    with row.call("does not answer itself"):
        await asyncio.sleep(2.5)
        assert adapter.handled.count("what is up") == 1 and len(adapter.handled) == 1, adapter.handled
    with row.call("handles a mention of another agent"):
        await client.send_message(ws, channel, token, "@echo and you", sender_name="other")
        await until(lambda: "@echo and you" in adapter.handled)
        await answered("echo: @echo and you")
    with row.call("leaves what others are asked"):
        await client.send_message(ws, channel, token, "@other not you", sender_type="human", sender_name="user")
        await asyncio.sleep(2.5)
        assert "@other not you" not in adapter.handled, adapter.handled
    with row.call("the mode button reaches it"):
        await control(action="set_mode", mode="plan")
        await until(lambda: adapter._mode == "plan")
    with row.call("the stop button reaches it"):
        await control(action="stop")
        await until(lambda: "stop" in adapter.actions)
    with row.call("queues what comes meanwhile and says so"):
        adapter.hold = asyncio.Event()
        await ask("first of two")
        await until(lambda: "first of two" in adapter.handled)
        await ask("second of two")
        await until(lambda: has("message queued — will process after current task"))
        adapter.hold.set()
        await answered("echo: second of two")
    with row.call("goes on after an error and says what it was"):
        await ask("please fail")
        await answered("Agent error: as it was told")
    with row.call("sends a file along"):
        await ask("make a file")
        assert (await answered("echo: make a file"))["attachments"][0]["filename"] == "out.txt"
    with row.call("asks whether there is a browser"):
        assert await adapter.get_browser_enabled() is False
    with row.call("is seen"):
        agents = {a["agentName"]: a for a in await client.get_agents(ws, token)}
        assert agents["echo"]["status"] == "online"
    with row.call("goes"):
        adapter._running = False
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        async def gone():
            agents = {a["agentName"]: a for a in await client.get_agents(ws, token)}
            return agents["echo"]["status"] == "offline"

        await until(gone)


run(main)
