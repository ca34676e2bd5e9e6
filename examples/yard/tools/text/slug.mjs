// Title in (JSON on stdin), prefix as the first argument, slug out.
import { readFileSync } from "node:fs";

const { title } = JSON.parse(readFileSync(0, "utf8"));
const prefix = process.argv[2] ?? "";
const plain = title.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const slug = plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
console.log(JSON.stringify({ data: { slug: prefix + slug } }));
