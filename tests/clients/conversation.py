"""A whole conversation of the official Python client with a server; prints what it saw as one JSON object.

Arguments: the mode ('auto' or 'legacy'), the marker of the tool that hangs, then a URL or a command with its arguments.
"""

import asyncio
import json
import pathlib
import sys

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters


def is_alive(marker):
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if process.name != "self" and marker.encode() in arguments and b"sleep 300" in b" ".join(arguments):
            return True
    return False


async def until(wished, marker):
    for _ in range(200):
        if is_alive(marker) == wished:
            return True
        await asyncio.sleep(0.05)
    return False


async def converse(server, mode, marker):
    seen = {"questions": [], "progress": []}

    async def answer(context, params):
        seen["questions"].append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ann", "email": "ann@example.org"})

    async def progress(now, total, message):
        seen["progress"].append([now, total])

    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        seen["revision"] = client.protocol_version
        seen["server"] = client.server_info.name
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        called = await client.call_tool("json_schema_2020_12_tool", {"name": "n", "email": "e"})
        seen["structured"] = called.structured_content
        called = await client.call_tool("test_error_handling", {})
        seen["error"] = [called.is_error, called.content[0].text]
        try:
            await client.call_tool("no_such_tool", {})
        except MCPError as error:
            seen["unknown"] = error.error.code
        called = await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
        seen["progressed"] = called.content[0].text
        called = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        seen["elicited"] = called.content[0].text
        seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        got = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        seen["prompt"] = got.messages[0].content.text
        reference = types.PromptReference(name="test_prompt_with_arguments")
        completed = await client.complete(reference, {"name": "arg1", "value": "par"})
        seen["completed"] = completed.completion.values
        seen["resources"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
        read = await client.read_resource("test://static-text")
        seen["resource"] = read.contents[0].text
        call = asyncio.create_task(client.call_tool("hang", {}))
        seen["hangs"] = await until(True, marker)
        call.cancel()
        seen["cancelled"] = await until(False, marker)
        called = await client.call_tool("greet", {"name": "you"})
        seen["afterwards"] = called.content[0].text
    return seen


mode, marker, *where = sys.argv[1:]
if len(where) > 1:
    where = StdioServerParameters(command=where[0], args=where[1:])
else:
    where = where[0]
print(json.dumps(asyncio.run(converse(where, mode, marker))))
