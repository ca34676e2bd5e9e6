"""The MCP 1.0 dialect: documented requests, sent verbatim, and their documented responses.

Called with `lines PROGRAM ARGUMENT…` or `http ADDRESS`. Values that the dialect leaves open are those of the yard
beside this file.
"""

import sys

from links import Http, Lines

checks = 0


def same(what, found, expected):
    global checks
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name != "_meta"}
    assert found == expected, f"{what}\n  answered {found}\n  expected {expected}"
    checks += 1


def ask(link, request):
    link.send(request)
    answer = link.receive()
    assert answer["jsonrpc"] == "2.0" and answer["id"] == request["id"], answer
    return answer


def result(link, method, params, number):
    request = {"jsonrpc": "2.0", "method": method, "params": params, "id": number}
    answer = ask(link, request)
    assert "result" in answer, answer
    return answer["result"]


def done(verb, resource):
    return {**resource, "code": 200, "message": f"Resource {verb} successfully"}


def greet(link):
    """The dialect allows it without `jsonrpc` and `id`."""
    link.send(
        {
            "method": "initialize",
            "params": {"protocol_version": "1.0", "capabilities": {"tools": True, "notifications": True}},
        }
    )
    answer = link.receive()
    same("version", answer["result"]["protocol_version"], "1.0")
    same("capability", answer["result"]["capabilities"]["tools"], True)
    same("id", answer["id"], None)
    link.send({"jsonrpc": "2.0", "method": "initialized"})


def tools(link):
    listed = result(link, "tools/list", {}, "<MSG_ID>")
    by_name = {tool["name"]: tool for tool in listed}
    same("schema", by_name["text_summarizer"]["inputSchema"]["required"], ["text"])
    call = {"name": "text_summarizer", "arguments": {"text": "tea for two"}}
    value = {"first": "tea", "length": 11}
    wrapped = {"content": [{"type": "json", "json": value}], "isError": False}
    same("any value", result(link, "tools/call", call, "a"), wrapped)
    call = {"tool_name": "text_summarizer", "arguments": {"text": "tea for two"}}
    same("tool_name", result(link, "tools/call", call, "ToolCallID"), wrapped)
    direct = {"content": [{"type": "text", "text": "..."}], "isError": False}
    same("content", result(link, "tools/call", {"name": "direct", "arguments": {}}, "b"), direct)
    failed = result(link, "tools/call", {"name": "refuses", "arguments": {}}, "c")
    same("isError", failed["isError"], True)
    error = failed["_meta"]["toolyard/error"]
    same("error type", error["error_type"], "ValidationError")
    same("error code", error["error_details"]["code"], "EINVAL")
    unknown = {"name": "<TOOL_ID>", "arguments": {"key": "value"}}
    answer = ask(link, {"jsonrpc": "2.0", "method": "tools/call", "params": unknown, "id": "d"})
    same("code", answer["error"]["code"], -32602)
    same("data", answer["error"]["data"]["error_details"]["code"], "EINVAL")


def resources(link):
    shown = {
        "uri": "file:///path/to/resource",
        "name": "resource_name",
        "description": "Optional description of the resource",
        "mimeType": "text/plain",
    }
    listed = result(link, "resources/list", {}, 1)
    found = [resource for resource in listed if resource["uri"] == shown["uri"]]
    same("resources/list", {name: found[0][name] for name in shown}, shown)
    templates = result(link, "resources/template", {}, 2)
    same("template", [template["uriTemplate"] for template in templates], ["yard://notes/{+path}"])
    subject = {"uri": "file:///path/to/resource", "name": "resource_name"}
    content = {"uri": shown["uri"], "mimeType": "text/plain", "text": "optional text content of the resource"}
    same("resources/read", result(link, "resources/read", subject, 3), content)
    note = {"uri": "yard://notes/b.txt", "name": "resource_name"}
    write = {**note, "mimeType": "text/plain", "text": "optional text content"}
    same("resources/write", result(link, "resources/write", write, 4), done("written", note))
    blob = {"uri": "yard://notes/c.bin", "name": "c", "blob": "AAEC"}
    same("blob", result(link, "resources/write", blob, 5), done("written", {"uri": blob["uri"], "name": "c"}))
    read = result(link, "resources/read", {"uri": blob["uri"]}, 6)
    same("blob", read["blob"], "AAEC")
    same("resources/delete", result(link, "resources/delete", note, 7), done("deleted", note))
    answer = ask(link, {"jsonrpc": "2.0", "method": "resources/delete", "params": note, "id": 8})
    same("gone", answer["error"]["data"]["error"]["error_type"], "ResourceNotFound")


def subscriptions(link):
    updates = link.updates()
    note = {"uri": "yard://notes/a.txt", "name": "resource_name"}
    same("subscribe", result(link, "resources/subscribe", note, "sub"), done("subscribed", note))
    write = {**note, "text": "second"}
    link.send({"jsonrpc": "2.0", "method": "resources/write", "params": write, "id": "w"})
    # On one stream the response and the update come in either order.
    seen = [updates()] if isinstance(link, Http) else [link.receive(), link.receive()]
    update = next(message for message in seen if message["id"] == "sub")
    content = {"uri": note["uri"], "mimeType": "text/plain", "text": "second"}
    same("updated", update["result"], content)
    same("its name", update["method"], "notification/resources/updated")
    if isinstance(link, Http):
        link.receive()
    # The dialect writes the end of a subscription as a result.
    link.send({"jsonrpc": "2.0", "result": note, "id": "un"})
    answer = link.receive()
    while answer["id"] != "un":
        answer = link.receive()
    same("unsubscribed", answer["result"], done("unsubscribed", note))
    again = result(link, "notification/resources/unsubscribed", note, "again")
    same("by its name", again, done("unsubscribed", note))


def prompts(link):
    listed = result(link, "prompt/list", {}, 1)
    argument = {"name": "topic", "description": "What it is about", "required": False}
    expected = {
        "name": "writing.sectioned_draft",
        "description": "Asks for a draft in sections",
        "arguments": [argument],
    }
    same("prompt/list", len(listed), 1)
    same("prompt/list", listed[0], expected)
    call = {"prompt_name": "writing.sectioned_draft", "arguments": {"topic": "tea"}}
    answer = ask(link, {"jsonrpc": "2.0", "method": "prompt/call", "params": call, "id": 2})
    same("prompt/call", answer["error"]["message"], "no model configured")


def main(how, *where):
    link = Http(where[0]) if how == "http" else Lines(where)
    greet(link)
    tools(link)
    resources(link)
    subscriptions(link)
    prompts(link)
    link.send({"jsonrpc": "2.0", "method": "closed"})
    if how == "http":
        same("closed", link.status, 202)
        link.send({"jsonrpc": "2.0", "method": "tools/list", "params": {}, "id": 9})
        same("the session is gone", link.status, 404)
    else:
        same("the server ends", link.ended(), 0)
    print(f"{checks} answers as the MCP 1.0 dialect shows them")


main(*sys.argv[1:])
