"""The plain dialect over HTTP (`http ADDRESS`), the framed dialect on pipes (`frames PROGRAM ARGUMENT…`)."""

import json
import sys

from links import Frames, Http

checks = 0

BODY = "# Sectioned Draft v3\n\nWrite a sectioned draft about the provided topic.\n"


def same(what, found, expected):
    global checks
    assert found == expected, f"{what}\n  answered {found}\n  expected {expected}"
    checks += 1


class Routes:
    def __init__(self, address):
        self.link = Http(address)

    def get(self, path):
        answer = self.link.request("GET", path)
        return answer.status, json.load(answer)

    def discover(self):
        return self.get("/mcp/discover")[1]

    def prompt(self, domain, name, major):
        status, answer = self.get(f"/mcp/prompt/{domain}/{name}/{major}")
        return answer if status == 200 else (status, answer["error"])

    def invoke(self, tool, payload):
        answer = self.link.request("POST", f"/mcp/tool/{tool}", json.dumps(payload))
        envelope = json.load(answer)
        assert (answer.status == 200) == (envelope["error"] is None), envelope
        return envelope

    statuses = {"no version": 404, "no number": 400}


class Pipe:
    def __init__(self, command):
        self.link, self.number = Frames(command), 0

    def ask(self, method, params):
        self.number += 1
        self.link.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer = self.link.receive()
        assert answer["id"] == self.number, answer
        if "error" in answer:
            # Toolpack error codes are in the data, never the JSON-RPC code.
            assert answer["error"]["code"] in (-32601, -32602, -32603), answer
        return answer

    def discover(self):
        return self.ask("mcp.discover", {})["result"]

    def prompt(self, domain, name, major):
        answer = self.ask("mcp.prompt.get", {"domain": domain, "name": name, "major": major})
        if "result" in answer:
            return answer["result"]
        return answer["error"]["code"], answer["error"]["data"]["error"]

    def invoke(self, tool, payload):
        answer = self.ask("mcp.tool.invoke", {"tool": tool, "payload": payload})
        return answer["result"] if "result" in answer else answer["error"]["data"]

    statuses = {"no version": -32602, "no number": -32602}


def discovery(way):
    document = way.discover()
    same("members", sorted(document), ["health", "prompts", "server", "tools"])
    tool = next(tool for tool in document["tools"] if tool["name"] == "markdown")
    same("caps", tool["caps"], {"timeoutMs": 5000, "maxInputBytes": 65536, "maxOutputBytes": 262144})
    same("schema", tool["inputSchema"]["required"], ["text"])
    same("health", document["health"]["status"], "ok")
    version = {
        "major": 3,
        "description": "Asks for a draft in sections",
        "specRef": "/mcp/prompt/writing/sectioned_draft/3#/spec",
    }
    same("prompts", document["prompts"], [{"id": "writing/sectioned_draft", "versions": [version]}])


def prompts(way):
    prompt = way.prompt("writing", "sectioned_draft", 3)
    same("body", prompt["body"], BODY)
    same("spec", list(prompt["spec"]["inputs"]["properties"]), ["topic"])
    for what, major in [("no version", 2), ("no number", "abc")]:
        status, error = way.prompt("writing", "sectioned_draft", major)
        same(what, (status, error["code"]), (way.statuses[what], "EINVAL"))


def calls(way):
    envelope = way.invoke("markdown", {"text": "tea"})
    same("members", sorted(envelope), ["body", "error", "meta", "warnings"])
    same("body", envelope["body"], {"markdown": "# tea"})
    same("error", envelope["error"], None)
    same("warnings", envelope["warnings"], [])
    same("trace", len(envelope["meta"]["traceId"]), 36)
    same("duration", isinstance(envelope["meta"]["durationMs"], int), True)
    same("cached", way.invoke("markdown", {"text": "tea"})["meta"]["cached"], True)
    same("example", way.invoke("list_dir", {"path": "/tmp"})["body"], {"ok": True})
    for tool, payload, code, kind in [
        ("refuses", {}, "EINVAL", "invalid_input"),
        ("markdown", {"text": 7}, "EINVAL", "invalid_input"),
        ("markdown", [], "EINVAL", "invalid_input"),
        ("slow", {}, "ETIMEOUT", "timeout"),
        ("loud", {}, "ECAP", "output_too_large"),
        ("loud", {"x": "y" * 50}, "ECAP", "input_too_large"),
        ("nothing", {}, "EINVAL", "unknown_tool"),
    ]:
        envelope = way.invoke(tool, payload)
        error = envelope["error"]
        same(f"{tool} {payload}", (error["code"], error["details"]["kind"]), (code, kind))
        same("no body", envelope["body"], None)
        same("a message", bool(error["message"]), True)


def main(how, *where):
    way = Routes(where[0]) if how == "http" else Pipe(where)
    discovery(way)
    prompts(way)
    calls(way)
    if how == "frames":
        same("no method", way.ask("tools/list", {})["error"]["code"], -32601)
        way.link.write(b"Content-Length: 3\r\n\r\n{]}")
        same("not JSON", way.link.receive()["error"]["code"], -32700)
        # A line that is not a header ends the connection, after an error response.
        way.link.write(b'{"jsonrpc":"2.0"}\n')
        answer = way.link.receive()
        same("no header", (answer["id"], answer["error"]["code"]), (None, -32700))
        same("the end", way.link.receive(), None)
        same("exit", way.link.ended(), 0)
    print(f"{checks} answers as the plain and framed dialects show them")


main(*sys.argv[1:])
