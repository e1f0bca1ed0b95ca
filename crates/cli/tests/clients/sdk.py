"""The SDK's AgentClient, Workspace() and WorkerAgent, unchanged, over both of their carriers."""

import asyncio
import hashlib

from openagents.agents.worker_agent import WorkerAgent
from openagents.models.event import Event
from openagents.sdk.client import AgentClient
from row import run, until


class Worker(WorkerAgent):
    def __init__(self, name):
        super().__init__(agent_id=name)
        self.seen = []

    async def on_startup(self):
        self.seen.append(("startup", None))

    async def on_direct(self, context):
        self.seen.append(("direct", context.text))
        await self.send_direct(to=context.source_id, text=f"back: {context.text}")

    async def on_channel_post(self, context):
        self.seen.append(("post", context.text))

    async def on_channel_mention(self, context):
        self.seen.append(("mention", context.text))
        await self.post_to_channel(context.channel, text=f"here: {context.text}")

    async def on_channel_reply(self, context):
        self.seen.append(("reply", context.text))

    async def on_reaction(self, context):
        self.seen.append(("reaction", context.reaction_type))


async def main(row, host, port, token):
    word = hashlib.sha256(token.encode()).hexdigest()
    for carrier in ("http", "grpc"):
        await over(row, carrier, host, int(port), word)


async def over(row, carrier, host, port, word):
    name = lambda who: f"{who}-{carrier}"
    named = lambda what: f"{carrier}: {what}"

    async def client(who):
        agent = AgentClient(name(who))
        assert await agent.connect(host, port, enforce_transport_type=carrier, password_hash=word)
        agent.got = []

        async def keep(event):
            agent.got.append(event)

        agent.register_event_handler(keep)
        return agent

    def came(agent, text):
        for event in agent.got:
            content = event.payload.get("content")
            if content == text or isinstance(content, dict) and content.get("text") == text:
                return event

    with row.call(named("connect with a wrong password")):
        stranger = AgentClient(name("mallory"))
        assert not await stranger.connect(host, port, enforce_transport_type=carrier, password_hash="0" * 64)
    with row.call(named("connect")):
        ann = await client("ann")
        ben = await client("ben")
        assert ann.connector.secret and ben.connector.secret

    with row.call(named("list_agents")):
        agents = {agent["agent_id"]: agent for agent in await ann.list_agents()}
        assert {name("ann"), name("ben")} <= set(agents) and agents[name("ben")]["connected"], agents
    with row.call(named("list_mods")):
        mods = await ann.list_mods()
        assert mods and all(mod["version"] and mod["requires_adapter"] is False for mod in mods), mods
    with row.call(named("get_mod_manifest")):
        assert (await ann.get_mod_manifest("persistence"))["name"] == "persistence"
    with row.call(named("get_mod_manifest of nothing")):
        assert await ann.get_mod_manifest("nothing") is None

    with row.call(named("send_agent_message")):
        sent = await ann.send_agent_message(name("ben"), {"content": "one to one", "n": 3})
        assert sent.success, sent
        event = await until(lambda: came(ben, "one to one"))
        assert event.source_id == name("ann") and event.event_name == "agent.message" and event.payload["n"] == 3
    with row.call(named("send_agent_message to nobody")):
        sent = await ann.send_agent_message("nobody-at-all", {"content": "x"})
        assert not sent.success and "unknown_target" in sent.message, sent
    with row.call(named("broadcast")):
        event = Event(event_name="team.news.told", source_id=name("ann"), destination_id="agent:broadcast", payload={"content": "to all"})
        assert (await ann.send_event(event)).success
        assert (await until(lambda: came(ben, "to all"))).destination_id == "agent:broadcast"
    with row.call(named("an event of a channel")):
        event = Event(event_name="team.note.made", source_id=name("ann"), destination_id="channel:general", payload={"content": "noted"})
        assert (await ann.send_event(event)).success
        assert (await until(lambda: came(ben, "noted"))).destination_id == "channel:general"
    with row.call(named("wait_event")):
        waiting = asyncio.create_task(ben.wait_event(lambda e: e.payload.get("content") == "awaited", timeout=20))
        await asyncio.sleep(0.1)
        await ann.send_agent_message(name("ben"), {"content": "awaited"})
        assert (await waiting).source_id == name("ann")
    with row.call(named("what was polled does not come again")):
        await asyncio.sleep(2.5)
        assert len([e for e in ben.got if e.payload.get("content") == "one to one"]) == 1
    with row.call(named("somebody else's name")):
        event = Event(event_name="agent.message", source_id=name("ben"), destination_id=name("ben"), payload={})
        sent = await ann.send_event(event)
        assert not sent.success and "source_mismatch" in sent.message, sent

    with row.call(named("subscribe_events")):
        sub = await ben.subscribe_events(["team.*"], ["general"])
        assert sub.success and sub.data["subscription_id"] and sub.data["event_patterns"] == ["team.*"], sub
    with row.call(named("a subscription leaves out the rest")):
        await ann.send_agent_message(name("ben"), {"content": "not wanted"})
        event = Event(event_name="team.note.made", source_id=name("ann"), destination_id="channel:general", payload={"content": "wanted"})
        await ann.send_event(event)
        await until(lambda: came(ben, "wanted"))
        assert not came(ben, "not wanted")
    with row.call(named("unsubscribe_events")):
        assert (await ben.unsubscribe_events(sub.data["subscription_id"])).success
        assert not (await ben.unsubscribe_events("sub-99")).success
        await ann.send_agent_message(name("ben"), {"content": "wanted again"})
        await until(lambda: came(ben, "wanted again"))

    async def system(agent, command, **payload):
        event = Event(event_name=f"system.{command}", source_id=agent.agent_id, destination_id="system:system", payload=payload)
        return await agent.send_event(event)

    with row.call(named("system.get_network_info")):
        told = await system(ann, "get_network_info")
        assert told.data["network_info"]["node_id"] and told.data["command"] == "get_network_info", told
    with row.call(named("system.heartbeat and ping_agent")):
        assert (await system(ann, "heartbeat", timestamp=7)).data["timestamp"] == 7
        assert (await system(ann, "ping_agent")).success
    with row.call(named("system.list_channels and members")):
        assert "general" in (await system(ann, "list_channels")).data["channels"]
        members = (await system(ann, "get_channel_members", channel_id="general")).data["members"]
        assert {name("ann"), name("ben")} <= set(members), members
    with row.call(named("system.remove_ and add_channel_member")):
        assert (await system(ben, "remove_channel_member", channel_id="general", agent_id=name("ben"))).success
        members = (await system(ann, "get_channel_members", channel_id="general")).data["members"]
        assert name("ben") not in members
        assert (await system(ben, "add_channel_member", channel_id="#general", agent_id=name("ben"))).success
    with row.call(named("system.verify_password")):
        assert (await system(ann, "verify_password", password_hash=word)).data["valid"] is True
        assert (await system(ann, "verify_password", password_hash="0" * 64)).data["valid"] is False
    with row.call(named("system.kick_agent and mod.disable take who manages")):
        for command, said in (
            ("kick_agent", {"target_agent_id": name("ben")}),
            ("mod.disable", {"mod_path": "persistence"}),
            ("mod.enable", {"mod_path": "analytics"}),
            ("update_agent_groups", {"action": "create", "group_name": "ops"}),
        ):
            sent = await system(ann, command, **said)
            assert not sent.success and "forbidden" in sent.message, (command, sent)
    with row.call(named("another system command is refused")):
        sent = await system(ann, "update_network_profile", profile={})
        assert not sent.success and "unsupported" in sent.message, sent

    room = ann.workspace().channel("#general")
    with row.call(named("Workspace: post")):
        posted = await room.post("posted here")
        assert posted.success and posted.data["event_id"], posted
        event = await until(lambda: came(ben, "posted here"))
        assert event.event_name == "thread.channel_message.notification" and event.payload["channel"] == "general", event
    with row.call(named("Workspace: post_with_mention")):
        assert (await room.post_with_mention("over to you", name("ben"))).success
        event = await until(lambda: came(ben, "over to you"))
        assert event.payload["mentioned_agent_id"] == name("ben"), event.payload
    with row.call(named("Workspace: reply")):
        assert (await ben.workspace().channel("general").reply(posted.data["event_id"], "an answer")).success
        event = await until(lambda: came(ann, "an answer"))
        assert event.event_name == "thread.reply.notification", event
        assert event.payload["reply_to_id"] == posted.data["event_id"]
    with row.call(named("Workspace: react_to_message")):
        assert (await ben.workspace().channel("general").react_to_message(posted.data["event_id"], "+1")).success
        await until(lambda: next((e for e in ann.got if e.event_name == "thread.reaction.notification"), None))
    with row.call(named("Workspace: get_messages")):
        read = await room.get_messages(limit=10)
        texts = [message["content"]["text"] for message in read]
        assert texts[:3] == ["an answer", "over to you", "posted here"], texts
        assert read[2]["reactions"] == {"+1": 1} and read[2]["sender_id"] == name("ann"), read[2]
    with row.call(named("Workspace: agent().send")):
        sent = await ann.workspace().agent(name("ben")).send("between us")
        assert sent.success, sent
        event = await until(lambda: came(ben, "between us"))
        assert event.event_name == "thread.direct_message.notification" and event.payload["sender_id"] == name("ann")
    with row.call(named("Workspace: agents")):
        assert name("ben") in await ann.workspace().agents()
    with row.call(named("thread.direct_messages.retrieve")):
        event = Event(event_name="thread.direct_messages.retrieve", source_id=name("ben"), payload={"target_agent_id": name("ann")})
        told = await ben.send_event(event)
        assert [m["content"]["text"] for m in told.data["messages"]] == ["between us"], told.data
    with row.call(named("thread.channels.list")):
        event = Event(event_name="thread.channels.list", source_id=name("ann"), payload={"action": "list_channels"})
        told = await ann.send_event(event)
        general = next(channel for channel in told.data["channels"] if channel["name"] == "general")
        assert name("ann") in general["agents"] and general["message_count"] > 0, general
    with row.call(named("thread.file.upload")):
        payload = {"filename": "a.txt", "file_content": "aGVsbG8=", "mime_type": "text/plain", "file_size": 5}
        told = await ann.send_event(Event(event_name="thread.file.upload", source_id=name("ann"), payload=payload))
        assert told.data["success"] and told.data["file_id"] and told.data["filename"] == "a.txt", told

    worker = Worker(name("worker"))
    with row.call(named("WorkerAgent: starts")):
        await start(worker, carrier, host, port, word)
        assert ("startup", None) in worker.seen
    with row.call(named("WorkerAgent: a direct message and its answer")):
        await ann.workspace().agent(name("worker")).send("psst")
        await until(lambda: ("direct", "psst") in worker.seen)
        assert (await until(lambda: came(ann, "back: psst"))).source_id == name("worker")
    with row.call(named("WorkerAgent: a mention and its answer")):
        await room.post(f"@{name('worker')} are you there")
        text = f"@{name('worker')} are you there"
        await until(lambda: ("mention", text) in worker.seen)
        await until(lambda: came(ann, f"here: {text}"))
    with row.call(named("WorkerAgent: a post for all")):
        await room.post("just saying")
        await until(lambda: ("post", "just saying") in worker.seen)
    with row.call(named("WorkerAgent: a reply and a reaction")):
        await room.reply(posted.data["event_id"], "as I said")
        await until(lambda: ("reply", "as I said") in worker.seen)
        mine = await worker.post_to_channel("general", text="like this")
        await ann.workspace().channel("general").react_to_message(mine.data["event_id"], "heart")
        await until(lambda: ("reaction", "heart") in worker.seen)
    with row.call(named("WorkerAgent: stops")):
        await worker.async_stop()

    with row.call(named("disconnect")):
        secret = ben.connector.secret
        assert await ben.disconnect()
        agents = {agent["agent_id"]: agent for agent in await ann.list_agents()}
        assert not agents.get(name("ben"), {"connected": False})["connected"], agents
        assert secret != ""
    with row.call(named("connect again")):
        again = await client("ben")
        assert again.connector.secret != secret
        await again.disconnect()
    await ann.disconnect()


async def start(worker, carrier, host, port, word):
    """Starts a worker over one carrier: its own start takes the carrier that the network recommends, which is gRPC."""
    if carrier == "grpc":
        await worker.async_start(network_host=host, network_port=port, password_hash=word)
        return
    connect = worker.client.connect

    async def by_http(*args, **named):
        named["enforce_transport_type"] = "http"
        return await connect(*args, **named)

    worker.client.connect = by_http
    await worker.async_start(network_host=host, network_port=port, password_hash=word)


if __name__ == "__main__":
    run(main)
