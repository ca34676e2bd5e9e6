//! `toolyard doctor`: can this machine run this yard, and if not, why.

use crate::output;
use crate::state_folder;
use crate::wiring::{GlobalOptions, Yard};
use rustix::fs::Access;
use std::path::Path;
use toolyard_engine::Severity;
use toolyard_formats::json;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_sandbox::{CgroupVersion, SandboxLevel, TreeLevel};
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
    let mut rows = vec![row("toolyard", State::Ok, env!("CARGO_PKG_VERSION").to_owned())];
    if found {
        rows.extend([row("yard", State::Ok, yard.root.display().to_string()), state_folder(&yard)]);
    } else {
        rows.push(row("yard", State::Absent, "none here; 'toolyard init' creates one".to_owned()));
    }
    rows.extend([process_trees(&yard), sandbox(&yard), landlock(&yard), limits(&yard)]);
    rows.extend(interpreters(&yard));
    if found {
        rows.extend(tools(&yard));
    }
    let healthy = rows.iter().all(|row| row.state != State::Failure);
    if global.json {
        output::data(json::objects(&rows, |object, row| {
            let (ok, state) = (row.state == State::Ok, row.state.name());
            object.text("name", row.name).bool("ok", ok).text("state", state).text("detail", &row.detail);
        }));
    } else {
        for row in &rows {
            output::line(format!("{:<4} {}: {}", row.state.mark(), row.name, row.detail));
        }
    }
    Ok(if healthy { 0 } else { ErrorKind::Unavailable.row().exit })
}

struct Row {
    name: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    /// It works, but weaker than it could.
    Warning,
    /// It is not there, and nothing needs it by itself.
    Absent,
    Failure,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Absent => "absent",
            State::Failure => "failure",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "WARN",
            State::Absent => "-",
            State::Failure => "FAIL",
        }
    }
}

fn row(name: &'static str, state: State, detail: String) -> Row {
    Row { name, state, detail }
}

fn state_folder(yard: &Yard) -> Row {
    let shown = yard.state.display();
    if let Some(Error { message, hint, .. }) = &yard.state_problem {
        return row(
            "state folder",
            State::Failure,
            format!("{message} ({})", hint.as_deref().unwrap_or_default()),
        );
    }
    match yard.state.ancestors().find(|folder| folder.exists()) {
        Some(folder) if !is_writable(folder) => {
            let detail = format!("{} is not writable; calls will be refused", folder.display());
            row("state folder", State::Failure, detail)
        }
        Some(folder) if folder == yard.state && state_folder::is_open_to_others(folder) => row(
            "state folder",
            State::Failure,
            format!("{shown} is open to other users; the next call closes it"),
        ),
        Some(folder) if folder == yard.state => row("state folder", State::Ok, shown.to_string()),
        _ => row("state folder", State::Ok, format!("{shown}, created by the first call")),
    }
}

fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn process_trees(yard: &Yard) -> Row {
    let (state, detail) = match yard.loader.launcher.level() {
        TreeLevel::PidNamespace => (State::Ok, "killed whole, by a pid namespace"),
        TreeLevel::UserPidNamespace => (State::Ok, "killed whole, by a user and pid namespace"),
        TreeLevel::Subreaper => (
            State::Warning,
            "killed by a subreaper, because namespaces are refused here; a hostile tool of the same user could kill it",
        ),
    };
    row("process trees", state, detail.to_owned())
}

fn sandbox(yard: &Yard) -> Row {
    let (launcher, policy) = (&yard.loader.launcher, yard.config.load_settings().sandbox_policy);
    let level = launcher.sandbox_level().min(policy.level);
    let Some(weakness) = policy.weakness(launcher) else {
        return row("sandbox", State::Ok, "full: namespaces, a view of the file system, seccomp".to_owned());
    };
    let (what, remedy) = (weakness.what, weakness.remedy);
    if level < policy.require {
        let detail = format!("{level}, but the yard requires {}: {what}; remedy: {remedy}", policy.require);
        return row("sandbox", State::Failure, detail);
    }
    let lacks = match level {
        SandboxLevel::None => "tools run without one",
        _ => {
            "no private /tmp, no lists of hosts, names of files outside are visible, modes and times cannot be changed"
        }
    };
    row("sandbox", State::Warning, format!("{level}, not full ({lacks}): {what}; remedy: {remedy}"))
}

fn landlock(yard: &Yard) -> Row {
    let launcher = &yard.loader.launcher;
    if let Some(weakness) = launcher.no_landlock() {
        return row("landlock", State::Warning, format!("{}; remedy: {}", weakness.what, weakness.remedy));
    }
    let rights = launcher.landlock();
    let in_a_namespace = launcher.level() != TreeLevel::Subreaper;
    let lacking: Vec<&str> = [
        (!rights.has_truncate(), "truncating files (seccomp refuses it instead)"),
        (
            !rights.isolates_abstract_sockets(),
            "abstract UNIX sockets (refused with 'network: allow' instead)",
        ),
        (!rights.isolates_signals() && in_a_namespace, "signals (a pid namespace stops them instead)"),
        (
            !rights.isolates_signals() && !in_a_namespace,
            "signals: a tool can end other processes of its user",
        ),
    ]
    .into_iter()
    .filter_map(|(lacks, what)| lacks.then_some(what))
    .collect();
    match lacking.is_empty() {
        true => row("landlock", State::Ok, "files, truncating, abstract UNIX sockets, signals".to_owned()),
        false => {
            let detail = format!(
                "this kernel has no right for {}; remedy: use Linux 6.12 or newer",
                lacking.join(", ")
            );
            row("landlock", State::Warning, detail)
        }
    }
}

fn limits(yard: &Yard) -> Row {
    match yard.loader.launcher.cgroups() {
        Ok(CgroupVersion::V1) => row("limits", State::Ok, "enforced by cgroups (version 1)".to_owned()),
        Ok(CgroupVersion::V2) => row("limits", State::Ok, "enforced by cgroups (version 2)".to_owned()),
        Err(why) => {
            let detail = format!(
                "watched through /proc (memfd and UNIX datagrams are refused in the sandbox): {why}; \
                 remedy: start toolyard in a cgroup of its own (systemd-run --user --scope -p Delegate=yes toolyard …)"
            );
            row("limits", State::Warning, detail)
        }
    }
}

/// A missing interpreter is no failure by itself: the tools that need it are reported below.
fn interpreters(yard: &Yard) -> Vec<Row> {
    let interpreters = KINDS.iter().filter_map(|kind| kind.interpreter);
    let found = |label: &'static str, path: Option<std::path::PathBuf>| match path {
        Some(path) => row(label, State::Ok, path.display().to_string()),
        None => row(label, State::Absent, "not installed".to_owned()),
    };
    interpreters.map(|one| found(one.label, one.find(yard.loader.lookup()))).collect()
}

fn tools(yard: &Yard) -> Vec<Row> {
    let snapshot = yard.load();
    let errors = snapshot.problems().iter().filter(|problem| problem.severity == Severity::Error).count();
    let loaded = format!("{} loaded, {errors} problem(s)", snapshot.entries().len());
    let state = if errors == 0 { State::Ok } else { State::Failure };
    let mut rows = vec![row("tools", state, loaded)];
    for problem in snapshot.problems() {
        let detail = format!("{}:{}", problem.source, super::list::describe(problem));
        let name = if problem.severity == Severity::Error { "tool file" } else { "tool" };
        let state = if problem.severity == Severity::Note { State::Warning } else { State::Failure };
        rows.push(row(name, state, detail));
    }
    rows
}
