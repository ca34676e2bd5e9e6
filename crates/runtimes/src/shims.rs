//! Recognises the shims of version managers and asks the manager which program a shim starts: pyenv, rbenv and their
//! relatives, asdf, mise, rustup and Volta. (nvm has no shims: it puts the folder of a version on the search path.)

use crate::beneath::{open_regular_anywhere, read_all};
use crate::interpreter::{Lookup, is_of_yard};
use crate::probe::{self, Question};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MAX_SHIM: usize = 64 << 10;

/// The program that the shim starts; the path itself if it is no shim, or if its manager does not say.
pub fn real_program(lookup: Lookup<'_>, found: &Path) -> PathBuf {
    lookup.host.resolve_shim(found, || target(lookup, found))
}

/// Asks the manager of the shim; `None` if it is no shim.
pub fn target(lookup: Lookup<'_>, found: &Path) -> Option<PathBuf> {
    if is_of_yard(found, lookup.places) {
        return None;
    }
    let question = question(lookup, found)?;
    let answer = probe::ask(lookup, &question)?;
    let is_program = answer.is_absolute() && answer.is_file() && answer != found;
    (is_program && !is_of_yard(&answer, lookup.places)).then_some(answer)
}

fn question(lookup: Lookup<'_>, found: &Path) -> Option<Question> {
    let home = lookup.host.home()?.to_owned();
    let name = found.file_name()?.to_owned();
    let folder = found.parent()?;
    let real = std::fs::canonicalize(found).ok()?;
    let ask = |program: PathBuf, env: Vec<(&str, PathBuf)>, read: Vec<PathBuf>| {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into()));
        let env: Vec<(OsString, OsString)> =
            env.chain([("HOME".into(), home.clone().into_os_string())]).collect();
        Some(Question { program, arguments: vec!["which".into(), name.clone()], env, read })
    };
    let in_home = |path: &str| home.join(path);
    let variable =
        |name: &str, default: &str| lookup.host.var(name).map_or_else(|| in_home(default), PathBuf::from);
    // One program under many names, which looks at the name it was started by.
    match real.file_name()?.to_str()? {
        "mise" => {
            let data = variable("MISE_DATA_DIR", ".local/share/mise");
            let config = variable("MISE_CONFIG_DIR", ".config/mise");
            let state = variable("MISE_STATE_DIR", ".local/state/mise");
            let env = vec![("MISE_DATA_DIR", data.clone()), ("MISE_CONFIG_DIR", config.clone())];
            return ask(real, env, vec![data, config, state, in_home(".tool-versions")]);
        }
        "volta-shim" => {
            let data = variable("VOLTA_HOME", ".volta");
            return ask(real.with_file_name("volta"), vec![("VOLTA_HOME", data.clone())], vec![data]);
        }
        _ => {}
    }
    let rustup = folder.join("rustup");
    if name != "rustup" && is_same_file(&real, &rustup) {
        let data = variable("RUSTUP_HOME", ".rustup");
        let env = vec![("RUSTUP_HOME", data.clone()), ("CARGO_HOME", folder.parent()?.to_owned())];
        return ask(rustup, env, vec![data]);
    }
    if folder.file_name()? != "shims" {
        return None;
    }
    let data = folder.parent()?.to_owned();
    let manager = manager_of_script(lookup, found)?;
    if manager.file_name()? == "asdf" {
        let code = manager.parent()?.parent()?.to_owned();
        let env = vec![("ASDF_DATA_DIR", data.clone()), ("ASDF_DIR", code.clone())];
        return ask(manager, env, vec![data, code, in_home(".tool-versions"), in_home(".asdfrc")]);
    }
    // PYENV_ROOT, RBENV_ROOT, NODENV_ROOT …
    let root = format!("{}_ROOT", manager.file_name()?.to_str()?.to_ascii_uppercase());
    ask(manager, vec![(root.as_str(), data.clone())], vec![data])
}

/// The program in the line `exec PROGRAM exec …` of a shim that is a script.
fn manager_of_script(lookup: Lookup<'_>, shim: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(read_all(open_regular_anywhere(shim).ok()?, MAX_SHIM).ok()?).ok()?;
    let program = text.starts_with("#!").then(|| text.lines().find_map(program_of_line)).flatten()?;
    let found = match program.starts_with('/') {
        true => PathBuf::from(program),
        false => lookup.host.program(program, &lookup.places.root)?,
    };
    (found.is_file() && !is_of_yard(&found, lookup.places)).then_some(found)
}

fn program_of_line(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("exec ")?;
    let (program, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_once(' ')?,
    };
    let is_plain = !program.is_empty() && !program.contains(['$', '`', '\\', '\'']);
    (is_plain && rest.trim_start().starts_with("exec ")).then_some(program)
}

fn is_same_file(real: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    identity(other).is_some() && identity(real) == identity(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the managers write them.
    #[test]
    fn the_manager_is_found_in_its_shim() {
        for (line, expected) in [
            (r#"exec "/root/.pyenv/libexec/pyenv" exec "$program" "$@""#, Some("/root/.pyenv/libexec/pyenv")),
            (r#"exec "/usr/bin/rbenv" exec "$program" "$@""#, Some("/usr/bin/rbenv")),
            (
                r#"exec /home/u/.asdf/bin/asdf exec "node" "$@" # asdf_allow: ' asdf '"#,
                Some("/home/u/.asdf/bin/asdf"),
            ),
            (r#"exec asdf exec "node" "$@""#, Some("asdf")),
            (r#"exec "$MANAGER" exec x"#, None),
            (r#"exec /opt/python/bin/python3 "$@""#, None),
            ("# exec it", None),
            ("exec ", None),
        ] {
            assert_eq!(program_of_line(line), expected, "{line}");
        }
    }
}
