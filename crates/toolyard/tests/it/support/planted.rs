//! The secret that every yard of these tests is given.
//!
//! `scripts/test` makes a new one for each run, has yards and all output kept, and afterwards searches every file that
//! was written for it. Without that script the value is always the same and nothing is kept.

use std::fs::{self, OpenOptions};
use std::io::Write;

/// The variable a yard's commands get it in, and the name tools declare it by.
pub const VARIABLE: &str = "TOOLYARD_SECRET_PLANTED";
pub const NAME: &str = "planted";

const GIVEN: &str = "YARD_TEST_SECRET";
/// Characters that every encoding changes, around letters that none does.
const BY_HAND: &str = "pl+0by0hand0only0aaaa0bbbb0cccc0dddd0/\"with\" sp@ce~\u{f6}?";

pub fn secret() -> String {
    std::env::var(GIVEN).unwrap_or_else(|_| BY_HAND.to_owned())
}

/// The letters and digits in its middle: for places that take nothing else.
pub fn plain_part() -> String {
    let value = secret();
    let longest = value.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|part| part.len());
    longest.unwrap().to_owned()
}

/// Whether this run ends with the search.
pub fn is_searched_for() -> bool {
    std::env::var_os(GIVEN).is_some()
}

/// What the program said to anyone, for the search. Each test process has a file of its own.
pub fn record_output(output: &[u8]) {
    if !is_searched_for() {
        return;
    }
    let folder = std::env::temp_dir().join("outputs");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(std::process::id().to_string());
    OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(output).unwrap();
}
