//! Finds interpreters and resolves the shims of version managers. Nothing of the yard is run for that.

use crate::beneath::open_regular_anywhere;
use crate::grants::Places;
use crate::host::Host;
use crate::probe::{self, Question};
use crate::shims;
use std::io::Read;
use std::path::{Path, PathBuf};
use toolyard_sandbox::Launcher;

/// A program that runs scripts.
pub struct Interpreter {
    /// What `doctor` calls it.
    pub label: &'static str,
    /// The names it goes by, the best first.
    pub names: &'static [&'static str],
    /// The arguments that make it print its own path; empty when it is never a shim.
    pub self_path: &'static [&'static str],
}

/// Where interpreters are looked for, and what may run to find them.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub host: &'a Host,
    pub launcher: &'a Launcher,
    pub places: &'a Places,
}

impl Interpreter {
    /// The real executable, because a shim costs 100 ms per start and needs the owner's home folder.
    pub fn find(&self, lookup: Lookup<'_>) -> Option<PathBuf> {
        self.names
            .iter()
            .find_map(|name| lookup.host.program(name, &lookup.places.root))
            .map(|found| self.real_executable(lookup, found))
    }

    /// The same for an interpreter named in a tool file.
    pub fn find_named(&self, lookup: Lookup<'_>, name: &str) -> Option<PathBuf> {
        lookup.host.program(name, &lookup.places.root).map(|found| self.real_executable(lookup, found))
    }

    fn real_executable(&self, lookup: Lookup<'_>, found: PathBuf) -> PathBuf {
        lookup.host.resolve_shim(&found, || {
            shims::target(lookup, &found).or_else(|| self.ask_itself(lookup, &found))
        })
    }

    /// Another script that starts the interpreter.
    fn ask_itself(&self, lookup: Lookup<'_>, found: &Path) -> Option<PathBuf> {
        if self.self_path.is_empty() || is_of_yard(found, lookup.places) || !is_script(found) {
            return None;
        }
        let path = probe::ask(lookup, &Question::of_shim(found, self.self_path))?;
        (path.is_absolute() && path.is_file() && !is_of_yard(&path, lookup.places)).then_some(path)
    }
}

/// The interpreter that the first line of a script finds by the search path: `#!/usr/bin/env NAME`.
pub fn named_in_script(script: &Path) -> Option<String> {
    let mut start = [0u8; 256];
    let mut file = open_regular_anywhere(script).ok()?;
    let length = file.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    words.next().filter(|program| program.ends_with("/env"))?;
    // `env -S NAME argument`.
    words.find(|word| !word.starts_with('-') && !word.contains(['=', '/'])).map(str::to_owned)
}

/// Whether the path, or what its links lead to, is in the yard.
pub(crate) fn is_of_yard(path: &Path, places: &Places) -> bool {
    places.is_inside_yard(path)
        || std::fs::canonicalize(path).map_or(true, |real| places.is_inside_yard(&real))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0u8; 2];
    open_regular_anywhere(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && &start == b"#!"
}
