//! What a program outside the system folders needs of the file system: its own file, and the installation that it
//! is part of. Never a folder that holds other things too, such as `~/.local`.

use crate::beneath::{open_regular_anywhere, read_all};
use crate::grants::Places;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders of an installation `PREFIX/bin/program`; other entries of the prefix are not the program's.
const PARTS: [&str; 9] = ["bin", "lib", "lib32", "lib64", "libexec", "include", "share", "etc", "ssl"];
/// Folders that every sandboxed program sees.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"];
const MAX_VENV_CONFIG: usize = 64 << 10;

/// The paths to show to a program, apart from the yard and the system. `environment` is the folder of the
/// environment that was prepared for it.
pub fn parts(program: &Path, environment: Option<&Path>, places: &Places) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    if let Some(environment) = environment {
        found.insert(environment.to_owned());
        found.extend(base_of_venv(program, places));
    } else if places.is_inside_yard(program) {
        // A link of the yard grants nothing. A virtual environment counts only where it belongs.
        if program.starts_with(places.root.join(".venv/bin")) {
            found.extend(base_of_venv(program, places));
        }
    } else {
        found.extend(of_program(program, places));
        if prefix(program).is_some_and(|prefix| prefix.join("pyvenv.cfg").exists()) {
            found.extend(base_of_venv(program, places));
        }
    }
    found.into_iter().collect()
}

/// A program and the installation that its links lead to.
fn of_program(program: &Path, places: &Places) -> BTreeSet<PathBuf> {
    let Ok(real) = std::fs::canonicalize(program) else { return BTreeSet::new() };
    let mut found = BTreeSet::new();
    // The links on the way to it are part of the view too.
    if !is_system(program) || !is_system(&real) {
        found.insert(program.to_owned());
    }
    found.extend(installation(program, places));
    found.extend(installation(&real, places));
    found.retain(|path| is_allowed(path, places));
    found
}

/// The parts of `PREFIX` for `PREFIX/bin/program`.
fn installation(program: &Path, places: &Places) -> Vec<PathBuf> {
    let Some(prefix) = prefix(program) else { return Vec::new() };
    if is_system(program) || places.is_inside_yard(program) {
        return Vec::new();
    }
    let is_shared = prefix.components().count() <= 2
        || places.home_in(prefix).is_some()
        || places.is_directly_in_home(prefix)
        || places.root.starts_with(prefix)
        || places.state.starts_with(prefix);
    if is_shared {
        return libraries(program, prefix);
    }
    let mut parts: Vec<PathBuf> = PARTS.iter().map(|part| prefix.join(part)).collect();
    parts.push(prefix.join("pyvenv.cfg"));
    parts.retain(|part| std::fs::canonicalize(part).is_ok_and(|real| real.starts_with(prefix)));
    parts
}

/// What belongs to the interpreter alone in a prefix that it shares, such as `~/.local`.
fn libraries(program: &Path, prefix: &Path) -> Vec<PathBuf> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let lib = prefix.join("lib");
    if name.starts_with("python") && prefix.join("conda-meta").is_dir() {
        return vec![lib, prefix.join("ssl")].into_iter().filter(|part| part.is_dir()).collect();
    }
    let own: &[&str] = match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" => &["python", "libpython"],
        "pypy" => &["pypy", "libpypy"],
        "ruby" => &["ruby", "libruby"],
        "node" => &["node_modules"],
        "php" => &["php"],
        _ => return Vec::new(),
    };
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten().take(10_000);
    let is_own = |name: &str| own.iter().any(|start| name.starts_with(start));
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_own)).map(|entry| entry.path()).collect()
}

/// The Python installation that a virtual environment was created from. What its `pyvenv.cfg` or its links name
/// counts only if it is one: the environment may have been written by somebody else.
fn base_of_venv(program: &Path, places: &Places) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let config = prefix(program).map(|prefix| prefix.join("pyvenv.cfg"));
    let config =
        config.and_then(|config| read_all(open_regular_anywhere(&config).ok()?, MAX_VENV_CONFIG).ok());
    let config = String::from_utf8(config.unwrap_or_default()).unwrap_or_default();
    let home = config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
    let home = home.map(|(_, home)| PathBuf::from(home.trim())).filter(|home| home.is_absolute());
    let bases = ["python3", "python"].into_iter().filter_map(|name| Some(home.as_ref()?.join(name)));
    for base in std::iter::once(program.to_owned()).chain(bases) {
        let Ok(real) = std::fs::canonicalize(&base) else { continue };
        // A copy or a link inside the environment, which is visible already.
        if prefix(program).is_some_and(|prefix| real.starts_with(prefix)) {
            continue;
        }
        if is_python(&real) {
            if base == program || is_allowed(&base, places) {
                found.insert(base);
            }
            found.extend(of_program(&real, places));
        }
    }
    found
}

/// Whether this is the interpreter of a Python installation: its library is where it must be.
fn is_python(real: &Path) -> bool {
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let is_program = std::fs::symlink_metadata(real)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let Some(prefix) = prefix(real).filter(|_| is_program) else { return false };
    let is_library = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        (name.starts_with("python") || name.starts_with("pypy")) && entry.path().join("os.py").is_file()
    };
    let libraries = ["lib", "lib64"].iter().filter_map(|lib| std::fs::read_dir(prefix.join(lib)).ok());
    (name.starts_with("python") || name.starts_with("pypy"))
        && libraries.flatten().flatten().take(20_000).any(is_library)
}

fn is_allowed(path: &Path, places: &Places) -> bool {
    places.refusal(path, false, None).is_none()
}

fn prefix(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    folder.file_name().is_some_and(|name| name == "bin").then(|| folder.parent()).flatten()
}

pub fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|tree| path.starts_with(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Machine {
            let base = std::env::temp_dir().join(format!("toolyard-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&base);
            for folder in ["yard/.toolyard", "home"] {
                std::fs::create_dir_all(base.join(folder)).unwrap();
            }
            Machine(std::fs::canonicalize(base).unwrap())
        }

        fn program(&self, path: &str) -> PathBuf {
            let path = self.file(path);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn file(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        }

        fn parts(&self, program: &Path) -> Vec<String> {
            let home = self.0.join("home");
            let places = Places::new(self.0.join("yard"), self.0.join("yard/.toolyard"), Some(&home), None);
            let shown = |path: PathBuf| path.strip_prefix(&self.0).unwrap_or(&path).display().to_string();
            parts(program, None, &places).into_iter().map(shown).collect()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_installation_is_shown_without_what_lies_beside_it() {
        let machine = Machine::new("installation");
        let program = machine.program("home/.pyenv/versions/3.12/bin/python3.12");
        machine.file("home/.pyenv/versions/3.12/lib/python3.12/os.py");
        machine.file("home/.pyenv/versions/3.12/private");
        assert_eq!(
            machine.parts(&program),
            ["bin", "bin/python3.12", "lib"].map(|part| format!("home/.pyenv/versions/3.12/{part}"))
        );
        assert!(machine.parts(Path::new("/usr/bin/env")).is_empty());
    }

    #[test]
    fn a_shared_prefix_shows_only_the_interpreters_libraries() {
        let machine = Machine::new("shared");
        let program = machine.program("home/.local/bin/python3.12");
        for file in
            ["lib/python3.12/os.py", "lib/libpython3.12.so", "lib/other/x", "share/keyrings/x", "bin/y"]
        {
            machine.file(&format!("home/.local/{file}"));
        }
        assert_eq!(
            machine.parts(&program),
            ["bin/python3.12", "lib/libpython3.12.so", "lib/python3.12"]
                .map(|part| format!("home/.local/{part}"))
        );
        let own = machine.program("home/bin/tool");
        assert_eq!(machine.parts(&own), ["home/bin/tool"]);
    }

    #[test]
    fn a_virtual_environment_counts_at_its_place_and_with_a_python_installation() {
        let machine = Machine::new("venv");
        machine.program("opt/py/bin/python3");
        machine.file("opt/py/lib/python3.12/os.py");
        machine.file("private/secret");
        let link = |target: &Path, path: &str| {
            std::fs::create_dir_all(machine.0.join(path).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, machine.0.join(path)).unwrap();
            machine.0.join(path)
        };
        let program = link(&machine.0.join("opt/py/bin/python3"), "yard/.venv/bin/python");
        let config = |home: &str| {
            std::fs::write(
                machine.0.join("yard/.venv/pyvenv.cfg"),
                format!("home = {}\n", machine.0.join(home).display()),
            )
            .unwrap();
        };
        config("opt/py/bin");
        let found = machine.parts(&program);
        assert!(found.contains(&"opt/py/lib".to_owned()), "{found:?}");
        config("private");
        assert!(!machine.parts(&program).iter().any(|path| path.starts_with("private")));
        // The same file at another place of the yard, and a link of the yard.
        machine.file("yard/pyvenv.cfg");
        std::fs::write(
            machine.0.join("yard/pyvenv.cfg"),
            format!("home = {}/opt/py/bin\n", machine.0.display()),
        )
        .unwrap();
        assert!(machine.parts(&machine.program("yard/bin/x")).is_empty());
        machine.program("private/bin/thing");
        assert!(machine.parts(&link(&machine.0.join("private/bin/thing"), "yard/bin/y")).is_empty());
    }
}
