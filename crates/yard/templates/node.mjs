// The arguments arrive as JSON on stdin; the result is one JSON document on stdout.
import { readFileSync } from "node:fs";

const input = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ data: { greeting: `Hello, ${input.name}!` } }));
