//! The fuzz targets. A target takes bytes and returns a number for the kind of its answer, so that inputs
//! that lead to new kinds are mutated further.

mod edges;
mod files;
mod parsers;
mod websocket;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

pub struct Target {
    pub name: &'static str,
    pub run: Box<TargetFn>,
}

/// Maps an input to the kind of its answer.
pub type TargetFn = dyn Fn(&[u8]) -> u64;

/// Every target; they write only to `folder`.
pub fn all(folder: &Path) -> Result<Vec<Target>, String> {
    let mut targets = parsers::targets();
    targets.extend(websocket::targets());
    targets.extend(files::targets(folder)?);
    targets.extend(edges::targets(folder)?);
    Ok(targets)
}

fn target(name: &'static str, run: impl Fn(&[u8]) -> u64 + 'static) -> Target {
    Target { name, run: Box::new(run) }
}

/// Hash of the words of an answer without numbers and names, which differ from input to input.
fn kind_of(answer: &str) -> u64 {
    let mut state = DefaultHasher::new();
    let mut quoted = false;
    for word in answer.split_whitespace().take(60) {
        quoted ^= word.matches(['\'', '"']).count() % 2 == 1;
        if !quoted && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            word.hash(&mut state);
        }
    }
    state.finish()
}
