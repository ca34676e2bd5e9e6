//! `toolyard doctor`: can this machine run this yard, and if not, why.

use super::check_results::{self, Row};
use crate::output;
use crate::state_folder;
use crate::wiring::{GlobalOptions, Yard};
use rustix::fs::Access;
use std::path::Path;
use toolyard_engine::Severity;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_sandbox::{SandboxLevel, TreeLevel};
use toolyard_yard::kinds::KINDS;

/// Say what works on this machine and what does not
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, global: GlobalOptions) -> Result<u8, Error> {
    // The machine can be examined without a yard; one that was named must be there.
    let root = global.root();
    let found = root.is_ok();
    let yard = match root {
        Err(error) if global.yard.is_some() => return Err(error),
        Err(_) => Yard::look_at_files_of(std::env::current_dir().unwrap_or_else(|_| "/".into()))?,
        Ok(root) => Yard::look_at_files_of(root)?,
    };
    let mut rows = vec![row("toolyard", true, env!("CARGO_PKG_VERSION").to_owned())];
    if found {
        rows.extend([row("yard", true, yard.root.display().to_string()), state_folder(&yard)]);
    } else {
        rows.push(row("yard", true, "none here; 'toolyard init' creates one".to_owned()));
    }
    rows.extend([process_trees(&yard), sandbox(&yard)]);
    rows.extend(interpreters(&yard));
    if found {
        rows.extend(tools(&yard));
    }
    let healthy = rows.iter().all(|row| row.ok);
    if global.json {
        output::data(check_results::json(&rows));
    } else {
        for row in &rows {
            output::line(format!("{} {}: {}", if row.ok { "ok  " } else { "FAIL" }, row.name, row.detail));
        }
    }
    Ok(if healthy { 0 } else { ErrorKind::Unavailable.row().exit })
}

fn row(name: &'static str, ok: bool, detail: String) -> Row {
    Row { name, ok, detail }
}

fn state_folder(yard: &Yard) -> Row {
    let shown = yard.state.display();
    if let Some(Error { message, hint, .. }) = &yard.state_problem {
        return row("state folder", false, format!("{message} ({})", hint.as_deref().unwrap_or_default()));
    }
    match yard.state.ancestors().find(|folder| folder.exists()) {
        Some(folder) if !is_writable(folder) => {
            let detail = format!("{} is not writable; calls will be refused", folder.display());
            row("state folder", false, detail)
        }
        Some(folder) if folder == yard.state && state_folder::is_open_to_others(folder) => {
            row("state folder", false, format!("{shown} is open to other users; the next call closes it"))
        }
        Some(folder) if folder == yard.state => row("state folder", true, shown.to_string()),
        _ => row("state folder", true, format!("{shown}, created by the first call")),
    }
}

fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn process_trees(yard: &Yard) -> Row {
    let detail = match yard.loader.launcher.level() {
        TreeLevel::PidNamespace => "killed whole, by a pid namespace",
        TreeLevel::UserPidNamespace => "killed whole, by a user and pid namespace",
        TreeLevel::Subreaper => {
            "killed by a subreaper, because namespaces are refused here; a hostile tool of the same user could kill it"
        }
    };
    row("process trees", true, detail.to_owned())
}

fn sandbox(yard: &Yard) -> Row {
    match yard.loader.launcher.sandbox_level() {
        SandboxLevel::Full => row("sandbox", true, "full: namespaces, Landlock and seccomp".to_owned()),
        SandboxLevel::Landlock => {
            row("sandbox", true, "Landlock and seccomp; namespaces are refused here".to_owned())
        }
        SandboxLevel::None => {
            row("sandbox", false, "none: neither namespaces nor Landlock are to be had".to_owned())
        }
    }
}

/// A missing interpreter is no failure by itself: the tools that need it are reported below.
fn interpreters(yard: &Yard) -> Vec<Row> {
    let path = |found: Option<std::path::PathBuf>| {
        found.map_or("not installed".to_owned(), |path| path.display().to_string())
    };
    let interpreters = KINDS.iter().filter_map(|kind| kind.interpreter);
    interpreters.map(|one| row(one.label, true, path(one.find(yard.loader.lookup())))).collect()
}

fn tools(yard: &Yard) -> Vec<Row> {
    let snapshot = yard.load();
    let errors = snapshot.problems().iter().filter(|problem| problem.severity == Severity::Error).count();
    let loaded = format!("{} loaded, {errors} problem(s)", snapshot.entries().len());
    let mut rows = vec![row("tools", errors == 0, loaded)];
    for problem in snapshot.problems() {
        let detail = format!("{}:{}", problem.source, super::list::describe(problem));
        let name = if problem.severity == Severity::Error { "tool file" } else { "tool" };
        rows.push(row(name, problem.severity == Severity::Note, detail));
    }
    rows
}
