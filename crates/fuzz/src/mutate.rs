//! Mutates known inputs: bit flips, cuts, copies, splices, and dictionary words.

/// Maximum size of an input.
const MAX_SIZE: usize = 64 * 1024;

/// Tokens that some parser treats specially.
const DICTIONARY: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-",
    "1e999",
    "0x",
    "\0",
    "\r\n",
    "\n",
    "\r\n\r\n",
    " ",
    "\t",
    "\u{feff}",
    "\u{202e}",
    "é",
    "\"jsonrpc\":\"2.0\",",
    "\"id\":1,",
    "\"method\":",
    "\"params\":{",
    "\"_meta\":{",
    "\"result\":",
    "\"error\":",
    "tools/call",
    "tools/list",
    "initialize",
    "protocolVersion",
    "protocol_version",
    "2025-11-25",
    "2026-07-28",
    "1.0",
    "resources/read",
    "prompts/get",
    "notifications/cancelled",
    "Content-Length: ",
    "Content-Type: ",
    "content-length: 5\r\n",
    "transfer-encoding: chunked\r\n",
    "HTTP/1.1",
    "POST ",
    "GET ",
    "/mcp",
    "/mcp/tool/",
    "/v1/tools/echo",
    "host: localhost\r\n",
    "%00",
    "%2e%2e",
    "..",
    "0\r\n\r\n",
    "99999999999999999999",
    "-1",
    "id: ",
    "kind: ",
    "entry: ",
    "schema: ",
    "$ref: ",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "- ",
    "|",
    ">",
    "---\n",
    "...\n",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "input",
    "input.a",
    "| ",
    "range(9999999)",
    "for x in ",
    "endfor",
    "{+",
    "yard://",
    "$toolyard",
    "progress",
    "ask",
    "elicit",
    "timeoutMs: ",
    "limits: ",
];

/// A small seeded random number generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A new input from one of `pool`, which is not empty.
pub fn mutate(random: &mut Random, pool: &[Vec<u8>]) -> Vec<u8> {
    let mut input = pick(random, pool).to_vec();
    for _ in 0..=random.below(6) {
        change(random, pool, &mut input);
    }
    input.truncate(MAX_SIZE);
    input
}

fn pick<'a>(random: &mut Random, pool: &'a [Vec<u8>]) -> &'a [u8] {
    pool.get(random.below(pool.len())).map_or(&[], Vec::as_slice)
}

fn change(random: &mut Random, pool: &[Vec<u8>], input: &mut Vec<u8>) {
    let at = random.below(input.len() + 1);
    let length = random.below(32) + 1;
    let end = (at + length).min(input.len());
    match random.below(10) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.below(256) as u8;
            }
        }
        2 => drop(input.drain(at..end)),
        3 => input.truncate(at),
        4 | 5 => {
            let word = DICTIONARY.get(random.below(DICTIONARY.len())).copied().unwrap_or_default();
            input.splice(at..at, word.bytes());
        }
        6 => {
            let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            input.splice(at..at, noise);
        }
        7 => {
            // Copies a piece to another position.
            let piece = input[at..end].to_vec();
            let place = random.below(input.len() + 1);
            input.splice(place..place, piece);
        }
        8 => {
            let other = pick(random, pool);
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            // Repeats a piece: deep nesting and long lists.
            let piece = input[at..end].to_vec();
            let times = 1 << random.below(11);
            if piece.len() * times < MAX_SIZE {
                input.splice(at..at, piece.repeat(times));
            }
        }
    }
}
