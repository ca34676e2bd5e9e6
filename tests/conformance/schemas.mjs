// Prints the JSON schemas of the protocol that the conformance suite carries in its program, by revision. They are
// literals without any expression in them, so cutting each out at its closing brace is enough.
import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

const program = readFileSync(process.argv[2], "utf8");
const found = {};
for (const match of program.matchAll(/=\{\$schema:`[^`]*`,(?:\$defs|definitions):\{/g)) {
  const schema = runInNewContext(`(${literal(match.index + 1)})`);
  found[revision(schema)] = schema;
}
console.log(JSON.stringify(found));

function literal(start) {
  let depth = 0;
  let quote = null;
  for (let at = start; at < program.length; at++) {
    const letter = program[at];
    if (quote) {
      if (letter === "\\") at++;
      else if (letter === quote) quote = null;
    } else if ("`\"'".includes(letter)) quote = letter;
    else if (letter === "{") depth++;
    else if (letter === "}" && --depth === 0) return program.slice(start, at + 1);
  }
  throw new Error("a schema without an end");
}

// The schemas do not name their revision; each has something that the one before lacks.
function revision(schema) {
  const definitions = schema.$defs ?? schema.definitions;
  if ("DiscoverRequest" in definitions) return "2026-07-28";
  if ("CreateTaskResult" in definitions) return "2025-11-25";
  if ("ElicitRequest" in definitions) return "2025-06-18";
  return "2025-03-26";
}
