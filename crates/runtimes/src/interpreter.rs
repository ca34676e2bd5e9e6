//! Finds interpreters and resolves the shims of version managers. Nothing of the yard is run for that.

use crate::beneath::open_regular_anywhere;
use crate::grants::Places;
use crate::host::Host;
use crate::probe;
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
        if self.self_path.is_empty() || is_of_yard(&found, lookup.places) || !is_script(&found) {
            return found;
        }
        lookup.host.resolve_shim(&found, || {
            let path = probe::ask(lookup, &found, self.self_path)?;
            (path.is_absolute() && path.is_file() && !is_of_yard(&path, lookup.places)).then_some(path)
        })
    }
}

/// Whether the path, or what its links lead to, is in the yard.
fn is_of_yard(path: &Path, places: &Places) -> bool {
    places.is_inside_yard(path)
        || std::fs::canonicalize(path).map_or(true, |real| places.is_inside_yard(&real))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0u8; 2];
    open_regular_anywhere(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && &start == b"#!"
}
