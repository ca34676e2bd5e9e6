//! Mutates known inputs: bit flips, cuts, copies, splices, and dictionary words.

use std::sync::LazyLock;

/// Maximum size of an input.
const MAX_SIZE: usize = 64 * 1024;

/// Tokens that some parser treats specially.
static DICTIONARY: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| include_str!("../dictionary").lines().filter_map(read_word).collect());

/// A quoted word, in which a backslash precedes a quote, a backslash, or `x` and two hexadecimal digits.
fn read_word(line: &str) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix('"')?.strip_suffix('"')?.bytes();
    let mut word = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        word.push(match rest.next()? {
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            escaped => escaped,
        });
    }
    Some(word)
}

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
            let word = pick(random, &DICTIONARY);
            input.splice(at..at, word.iter().copied());
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
