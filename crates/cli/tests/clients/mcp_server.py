"""The package's MCP server over stdio, unchanged, in front of the node: every tool it offers."""

import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openagents.workspace_client import WorkspaceClient
from row import run

SERVER = "import asyncio, sys; from openagents.mcp_server import run_mcp_server; asyncio.run(run_mcp_server(*sys.argv[1:]))"


async def main(row, url):
    made = await WorkspaceClient(url).create_workspace("tooled", "Tools")
    arguments = ["-c", SERVER, made.workspace_id, made.channel_name, made.token, "tooled", url]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:

        async def text(tool, **arguments):
            answer = await session.call_tool(tool, arguments)
            return answer.content[0].text

        with row.call("initialize"):
            await session.initialize()
        with row.call("tools/list"):
            tools = {tool.name for tool in (await session.list_tools()).tools}
            assert len(tools) == 17, tools
        with row.call("workspace_get_history: nothing yet"):
            assert await text("workspace_get_history") == "No messages yet."
        with row.call("workspace_status"):
            assert await text("workspace_status", status="reading") == "Status updated: reading"
        with row.call("workspace_get_history"):
            assert "[tooled] reading" in await text("workspace_get_history", limit=5)
        with row.call("workspace_get_agents"):
            assert "- tooled (" in await text("workspace_get_agents")
        with row.call("workspace_list_files: none yet"):
            assert await text("workspace_list_files") == "No files in workspace."
        with row.call("workspace_write_file"):
            written = await text("workspace_write_file", filename="plan.md", content="# Plan")
            assert written.startswith("File written: plan.md"), written
        with row.call("workspace_list_files"):
            listed = await text("workspace_list_files")
            assert "plan.md" in listed and "openagents:tooled" in listed, listed
        file_id = listed.split("(id: ")[1].split(",")[0]
        with row.call("workspace_read_file"):
            assert await text("workspace_read_file", file_id=file_id) == "# Plan"
        with row.call("workspace_delete_file"):
            assert await text("workspace_delete_file", file_id=file_id) == f"File deleted: {file_id}"
        with row.call("workspace_browser_list_tabs"):
            assert await text("workspace_browser_list_tabs") == "No browser tabs open."
        with row.call("the other browser tools say that there is none"):
            for tool, arguments in (
                ("open", {}),
                ("navigate", {"tab_id": "t", "url": "about:blank"}),
                ("click", {"tab_id": "t", "selector": "a"}),
                ("type", {"tab_id": "t", "selector": "a", "text": "x"}),
                ("press_key", {"tab_id": "t", "key": "Enter"}),
                ("evaluate", {"tab_id": "t", "expression": "1"}),
                ("screenshot", {"tab_id": "t"}),
                ("snapshot", {"tab_id": "t"}),
                ("close", {"tab_id": "t"}),
            ):
                told = await text(f"workspace_browser_{tool}", **arguments)
                assert told.startswith("Error: ") and "unsupported" in told, told


run(main)
