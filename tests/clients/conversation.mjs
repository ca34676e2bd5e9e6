// A whole conversation of the official TypeScript client with a server; prints what it saw as one JSON object.
//
// Arguments: the folder of the client's packages, the mode ('auto' or 'default'), the marker of the tool that hangs, then
// a URL or a command with its arguments.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const [packages, mode, marker, ...where] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

function isAlive() {
  return readdirSync("/proc").some((process) => {
    try {
      const words = readFileSync(`/proc/${process}/cmdline`, "utf8").split("\0");
      return words.includes(marker) && words.some((word) => word.includes("sleep 300"));
    } catch {
      return false;
    }
  });
}

async function until(wished) {
  for (let n = 0; n < 200; n++) {
    if (isAlive() === wished) return true;
    await sleep(50);
  }
  return false;
}

const seen = { questions: [], progress: [] };
const options = { capabilities: { elicitation: {} } };
if (mode === "auto") options.versionNegotiation = { mode: "auto" };
const client = new Client({ name: "conversation", version: "1" }, options);
client.setRequestHandler("elicitation/create", async (request) => {
  seen.questions.push(request.params.message);
  return { action: "accept", content: { username: "ann", email: "ann@example.org" } };
});
const transport =
  where.length > 1
    ? new StdioClientTransport({ command: where[0], args: where.slice(1) })
    : new StreamableHTTPClientTransport(new URL(where[0]));
await client.connect(transport);
seen.revision = client.getNegotiatedProtocolVersion();
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
seen.structured = (await call("json_schema_2020_12_tool", { name: "n", email: "e" })).structuredContent;
const failed = await call("test_error_handling", {});
seen.error = [failed.isError, failed.content[0].text];
await call("no_such_tool", {}).catch((error) => (seen.unknown = error.code));
const onprogress = ({ progress, total }) => seen.progress.push([progress, total]);
seen.progressed = (await call("test_tool_with_progress", {}, { onprogress })).content[0].text;
seen.elicited = (await call("test_elicitation", { message: "Who are you?" })).content[0].text;
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
const prompt = { name: "test_prompt_with_arguments", arguments: { arg1: "one", arg2: "two" } };
seen.prompt = (await client.getPrompt(prompt)).messages[0].content.text;
const reference = { type: "ref/prompt", name: "test_prompt_with_arguments" };
const completed = await client.complete({ ref: reference, argument: { name: "arg1", value: "par" } });
seen.completed = completed.completion.values;
seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
seen.resource = (await client.readResource({ uri: "test://static-text" })).contents[0].text;
const abort = new AbortController();
const hanging = call("hang", {}, { signal: abort.signal }).catch(() => null);
seen.hangs = await until(true);
abort.abort("enough");
await hanging;
seen.cancelled = await until(false);
seen.afterwards = (await call("greet", { name: "you" })).content[0].text;
// The client does not end its session by itself; the server would hold it until it times out.
if (mode === "default" && where.length === 1) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
