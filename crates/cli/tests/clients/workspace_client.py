"""The public package's WorkspaceClient, unchanged: every call it has, and what its callers count on."""

from openagents.workspace_client import WorkspaceClient
from openagents.client.workspace_client import SessionRevokedError
from row import refused, run


async def main(row, url):
    client = WorkspaceClient(url)

    with row.call("create_workspace"):
        made = await client.create_workspace("alice", "Team", agent_type="claude")
        assert made.name == "Team" and made.token and made.channel_name.startswith("session-"), made
    ws, token, channel = made.workspace_id, made.token, made.channel_name
    with row.call("create_workspace with a name that is taken"):
        again = await client.create_workspace("alice", "Team")
        assert again.workspace_id != ws and again.name == "Team"
    with row.call("create_workspace without a name or an agent"):
        first, second = await client.create_workspace(), await client.create_workspace()
        assert first.name == second.name == "My Workspace" and first.workspace_id != second.workspace_id

    with row.call("resolve_token"):
        info = await client.resolve_token(token)
        assert info["workspace_id"] == ws and info["slug"] == made.slug and info["name"] == "Team", info
    with row.call("resolve_token of nothing"):
        with refused(ConnectionError):
            await client.resolve_token("no-token-of-anything")

    with row.call("join_network"):
        joined = await client.join_network("alice", ws, token, "claude", "host-1", "/work")
        assert joined["session_id"] and joined["agent_name"] == "alice", joined
    session = joined["session_id"]
    with row.call("join_network by the token alone"):
        bob = await client.join_network("bob", None, token)
        assert bob["network_id"] == ws
    with row.call("join_network with a wrong token"):
        with refused(ConnectionError):
            await client.join_network("mallory", ws, "wrong")

    with row.call("heartbeat"):
        beat = await client.heartbeat(ws, "alice", token)
        assert beat["agent_name"] == "alice" and beat["status"] == "online", beat
    with row.call("heartbeat with its session"):
        assert (await client.heartbeat(ws, "alice", token, session))["status"] == "online"
    with row.call("heartbeat of a stranger"):
        assert (await client.heartbeat(ws, "nobody", token))["status"] == "online"
        assert "nobody" not in {a["agentName"] for a in await client.get_agents(ws, token)}
    with row.call("heartbeat with a wrong token"):
        with refused(ConnectionError):
            await client.heartbeat(ws, "alice", "wrong")
    with row.call("heartbeat of a session that was taken over"):
        newer = await client.join_network("alice", ws, token)
        with refused(SessionRevokedError):
            await client.heartbeat(ws, "alice", token, session)
    with row.call("send_message of a session that was taken over"):
        with refused(SessionRevokedError):
            await client.send_message(ws, channel, token, "late", sender_name="alice", session_id=session)
    session = newer["session_id"]

    with row.call("send_message of a person"):
        sent = await client.send_message(ws, channel, token, "hello", sender_type="human", sender_name="user")
        assert sent["messageId"] and sent["senderType"] == "human"
    hello = sent["messageId"]
    with row.call("send_message of an agent"):
        sent = await client.send_message(ws, channel, token, "hi there", sender_name="alice")
        assert sent["messageId"]
    with row.call("send_message with its session"):
        await client.send_message(ws, channel, token, "mine", sender_name="alice", session_id=session)
    for kind in ("status", "thinking", "todos"):
        with row.call(f"send_message of type {kind}"):
            await client.send_message(ws, channel, token, kind, sender_name="alice", message_type=kind)
    with row.call("send_message with metadata"):
        await client.send_message(ws, channel, token, "m", sender_name="alice", metadata={"agent_mode": "plan"})
    with row.call("send_message with attachments"):
        files = [{"fileId": "f", "filename": "a.txt", "contentType": "text/plain"}]
        await client.send_message(ws, channel, token, "files", sender_name="alice", attachments=files)
    with row.call("send_message of somebody who has not joined"):
        await client.send_message(ws, channel, token, "me too", sender_name="carol")
    with row.call("send_message to a channel that is not there"):
        with refused(ConnectionError, "unknown_target"):
            await client.send_message(ws, "nowhere", token, "x", sender_name="alice")
    with row.call("send_message with a wrong token"):
        with refused(ConnectionError):
            await client.send_message(ws, channel, "wrong", "x", sender_name="alice")

    with row.call("poll_messages"):
        read = await client.poll_messages(ws, channel, token)
        assert [m["content"] for m in read[:2]] == ["hello", "hi there"], read
        assert read[0]["senderType"] == "human" and read[1]["senderName"] == "alice" and read[1]["createdAt"]
        assert read[0]["sessionId"] == channel
    with row.call("poll_messages after one"):
        read = await client.poll_messages(ws, channel, token, after=hello)
        assert read[0]["content"] == "hi there"
    with row.call("poll_messages of a page"):
        assert len(await client.poll_messages(ws, channel, token, limit=2)) == 2
    with row.call("poll_messages keeps metadata and attachments"):
        read = await client.poll_messages(ws, channel, token)
        assert any(m["metadata"].get("agent_mode") == "plan" for m in read)
        assert any(m.get("attachments") for m in read)
    with row.call("poll_messages after an event nobody knows"):
        assert (await client.poll_messages(ws, channel, token, after="01GONE"))[0]["content"] == "hello"
    with row.call("poll_messages with a wrong token"):
        assert await client.poll_messages(ws, channel, "wrong") == []

    with row.call("poll_pending: what a person asks the master"):
        messages, cursor = await client.poll_pending(ws, token, "alice")
        assert "hello" in [m["content"] for m in messages] and cursor
    with row.call("poll_pending: not one's own"):
        assert all(m["senderName"] != "alice" for m in messages)
    with row.call("poll_pending: not what is meant for others"):
        messages, _ = await client.poll_pending(ws, token, "bob")
        assert "hello" not in [m["content"] for m in messages]
    with row.call("poll_pending: a mention of another agent"):
        await client.send_message(ws, channel, token, "@bob please look", sender_name="alice")
        messages, _ = await client.poll_pending(ws, token, "bob")
        assert "@bob please look" in [m["content"] for m in messages]
    with row.call("poll_pending: goes on from its cursor"):
        _, cursor = await client.poll_pending(ws, token, "bob", limit=200)
        assert await client.poll_pending(ws, token, "bob", after=cursor) == ([], None)

    with row.call("poll_control: nothing yet"):
        assert await client.poll_control(ws, token, "alice") == []

    with row.call("get_agents"):
        agents = {a["agentName"]: a for a in await client.get_agents(ws, token)}
        assert {"alice", "bob", "carol"} <= set(agents), agents
        assert agents["alice"]["role"] == "master" and agents["alice"]["status"] == "online", agents
        assert all(":" not in name for name in agents), agents
    with row.call("get_agents with a wrong token"):
        assert await client.get_agents(ws, "wrong") == []

    with row.call("get_session"):
        info = await client.get_session(ws, channel, token)
        assert info["sessionId"] == channel and info["status"] == "active" and info["title"], info
    with row.call("get_session that is not there"):
        assert (await client.get_session(ws, "nowhere", token))["title"] == "nowhere"
    with row.call("update_session: an automatic title"):
        await client.update_session(ws, channel, token, title="Automatic", auto_title=True)
        info = await client.get_session(ws, channel, token)
        assert info["title"] == "Automatic" and not info["titleManuallySet"], info
    with row.call("update_session: a chosen title stays"):
        await client.update_session(ws, channel, token, title="Chosen")
        await client.update_session(ws, channel, token, title="Automatic", auto_title=True)
        info = await client.get_session(ws, channel, token)
        assert info["title"] == "Chosen" and info["titleManuallySet"], info
    with row.call("update_session: put away"):
        await client.update_session(ws, channel, token, status="archived")
        assert (await client.get_session(ws, channel, token))["status"] == "archived"
    with row.call("send_message to a session that was put away"):
        sent = await client.send_message(ws, channel, token, "done after all", sender_name="alice")
        assert sent["messageId"]
        assert (await client.get_session(ws, channel, token))["status"] == "active"

    with row.call("get_workspace_metadata"):
        meta = await client.get_workspace_metadata(ws, token)
        assert meta["workspaceId"] == ws and meta["browserEnabled"] is False and meta["name"] == "Team", meta
    with row.call("get_workspace_metadata with a wrong token"):
        assert await client.get_workspace_metadata(ws, "wrong") == {}

    with row.call("upload_file"):
        kept = await client.upload_file(ws, token, "notes.txt", b"hello", "text/plain", "openagents:alice", channel)
        assert kept["filename"] == "notes.txt" and kept["size"] == 5, kept
    with row.call("upload_file of nobody in particular"):
        other = await client.upload_file(ws, token, "raw.bin", bytes(range(256)))
        assert other["id"]
    with row.call("list_files"):
        found = await client.list_files(ws, token)
        assert found["total"] == 2 and {f["filename"] for f in found["files"]} == {"notes.txt", "raw.bin"}, found
    with row.call("list_files: items have their channel and status"):
        by = {f["filename"]: f for f in found["files"]}
        assert by["notes.txt"]["channel_name"] == channel and by["raw.bin"]["channel_name"] is None, by
        assert all(f["status"] == "active" for f in by.values())
    with row.call("list_files of a channel"):
        found = await client.list_files(ws, token, channel_name=channel)
        assert [f["filename"] for f in found["files"]] == ["notes.txt"]
    with row.call("list_files of somebody"):
        found = await client.list_files(ws, token, uploaded_by="openagents:alice")
        assert [f["filename"] for f in found["files"]] == ["notes.txt"]
    with row.call("list_files of a page"):
        assert len((await client.list_files(ws, token, limit=1, offset=1))["files"]) == 1
    with row.call("get_file_info"):
        assert (await client.get_file_info(token, kept["id"]))["content_type"] == "text/plain"
    with row.call("get_file_info of nothing"):
        assert (await client.get_file_info(token, "nothing"))["filename"] == "nothing"
    with row.call("read_file"):
        assert await client.read_file(ws, token, other["id"]) == bytes(range(256))
    with row.call("read_file with a wrong token"):
        with refused(ConnectionError):
            await client.read_file(ws, "wrong", other["id"])
    with row.call("delete_file"):
        assert (await client.delete_file(ws, token, other["id"]))["status"] == "deleted"
    with row.call("read_file that was deleted"):
        with refused(ConnectionError):
            await client.read_file(ws, token, other["id"])
    with row.call("delete_file that is not there"):
        with refused(ConnectionError):
            await client.delete_file(ws, token, "nothing")

    # Not counted by upstream's number: tabs of a browser are its own product. Lists are empty, acts are refused in words.
    with row.call("browser_list_tabs"):
        assert await client.browser_list_tabs(ws, token) == {"tabs": [], "total": 0}
    with row.call("browser acts are refused in words"):
        for act in (
            lambda: client.browser_open_tab(ws, token, "about:blank"),
            lambda: client.browser_navigate(ws, token, "t", "about:blank"),
            lambda: client.browser_click(ws, token, "t", "a"),
            lambda: client.browser_type(ws, token, "t", "a", "x"),
            lambda: client.browser_press_key(ws, token, "t", "Enter"),
            lambda: client.browser_evaluate(ws, token, "t", "1"),
            lambda: client.browser_screenshot(ws, token, "t"),
            lambda: client.browser_snapshot(ws, token, "t"),
            lambda: client.browser_close_tab(ws, token, "t"),
        ):
            with refused(ConnectionError, "unsupported"):
                await act()

    with row.call("check_invitations"):
        assert await client.check_invitations("alice") == []
    with row.call("accept_invitation"):
        assert await client.accept_invitation("nothing") == {}
    with row.call("reject_invitation"):
        assert await client.reject_invitation("nothing") is None

    with row.call("disconnect"):
        await client.disconnect(ws, "bob", token)
        agents = {a["agentName"]: a for a in await client.get_agents(ws, token)}
        assert agents["bob"]["status"] == "offline", agents
    with row.call("disconnect of a stranger"):
        await client.disconnect(ws, "nobody", token)


run(main)
