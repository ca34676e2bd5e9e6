//! The secret in the environment of every test yard.
//!
//! `scripts/test` generates one per run, retains yards and all output, and afterwards searches every written
//! file for it. Without that script the value is constant and nothing is retained.

use std::fs::{self, OpenOptions};
use std::io::Write;

/// The variable in the environment of a yard's commands, and the name by which tools declare the secret.
pub const VARIABLE: &str = "TOOLYARD_SECRET_PLANTED";
pub const NAME: &str = "planted";

const GIVEN: &str = "YARD_TEST_SECRET";
/// Characters that encodings change, around letters that none changes.
const DEFAULT: &str = "pl+0by0hand0only0aaaa0bbbb0cccc0dddd0/\"with\" sp@ce~\u{f6}?";

pub fn secret() -> String {
    std::env::var(GIVEN).unwrap_or_else(|_| DEFAULT.to_owned())
}

/// The letters and digits in its middle, for places that allow nothing else.
pub fn plain_part() -> String {
    let value = secret();
    let longest = value.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|part| part.len());
    longest.unwrap().to_owned()
}

/// Whether this run ends with the search.
pub fn is_searched_for() -> bool {
    std::env::var_os(GIVEN).is_some()
}

/// Records output of the program for the search, in one file per test process.
pub fn record_output(output: &[u8]) {
    if !is_searched_for() {
        return;
    }
    let folder = std::env::temp_dir().join("outputs");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(std::process::id().to_string());
    OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(output).unwrap();
}
