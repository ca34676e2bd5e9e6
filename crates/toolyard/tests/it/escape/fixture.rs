//! A yard with attacking tools, and everything outside that they must not reach.

use super::table::{AREAS, Tool, attempts};
use crate::support::{RunAs, Server, Yard, eventually, is_root, marker, processes_with, run_for, signal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

const CODE: &str = concat!(
    include_str!("attempts/base.py"),
    include_str!("attempts/files.py"),
    include_str!("attempts/processes.py"),
    include_str!("attempts/network.py"),
    include_str!("attempts/kernel.py"),
    include_str!("attempts/rights.py"),
);
const LIMIT: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65534;

/// How each attempt ended, by name: `possible`, the name of an error number, or another word.
pub type Outcomes = BTreeMap<String, String>;

pub struct Fixture {
    yard: Yard,
    server: Server,
    outside: PathBuf,
    marker: String,
    /// The process outside, and where everything of it is.
    process: Child,
    world: Value,
}

impl Fixture {
    pub fn new(run_as: RunAs, level: &str) -> Fixture {
        let (yard, marker) = (Yard::of(run_as), marker());
        let outside = notes_outside(run_as, &marker);
        yard.file("outside.py", include_str!("outside.py"));
        let mut command = yard.command_of("python3");
        command.env("PLANTED", &marker).arg("outside.py").args([&outside, &yard.root()]).arg(&marker);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut world: Value = serde_json::from_str(&line).unwrap();

        let port = world["port"].as_u64().unwrap();
        yard.file("data/.keep", "")
            .file("truncated.txt", "text")
            .file(".git/hooks/.keep", "")
            .file("tools/attack.py", CODE);
        for tool in Tool::ALL {
            let (name, sandbox) = (tool.name(), tool.sandbox(port));
            let run = "kind: python\nentry: tools.attack:run\ntimeoutMs: 60000";
            let text = format!("id: {name}\n{run}\nsandbox: {{{sandbox}}}\n");
            yard.file(&format!("tools/{name}.tool.yaml"), text);
        }
        yard.file("toolyard.toml", format!("[sandbox]\nlevel = \"{level}\"\n"));
        fs::write(yard.home().join("private"), "not for tools").unwrap();
        let other = if is_root() && run_as == RunAs::CurrentUser { NOBODY } else { 0 };
        let of_another = files_of(other, &yard);

        let mut command = yard.command();
        command.env("PLANTED", &marker).args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::start(command);
        let first = server.post("attack", json!({"attempts": [], "world": {}}).to_string()).json();
        assert_eq!(first["meta"]["sandbox"], *level, "{run_as:?}: {first}");
        let known = json!({
            "outside": outside, "home": yard.home(), "marker": marker, "run": "sandboxed", "launcher": 1,
            "state": file_with_content(yard.path(".toolyard")), "other": other, "of_another": of_another,
        });
        world.as_object_mut().unwrap().extend(known.as_object().unwrap().clone());
        Fixture { yard, server, outside, marker, process, world }
    }

    /// Makes every attempt from a tool, while another run of a tool offers what it can to others.
    pub fn sandboxed(&self) -> Outcomes {
        let before = self.notes();
        let mut outcomes = std::thread::scope(|scope| {
            let held = scope.spawn(|| self.call(Tool::Plain, &["hold"]));
            eventually("another tool runs", LIMIT, || self.yard.path("data/held").exists());
            let outcomes = AREAS.iter().flat_map(|area| {
                let names: Vec<&str> = area.attempts.iter().map(|attempt| attempt.name).collect();
                // A tool that exceeds a limit is killed, with everything that it runs.
                let is_limited = matches!(area.tool, Tool::Limited | Tool::LimitedCpu);
                let size = if is_limited { 1 } else { names.len() };
                let calls: Vec<Outcomes> =
                    names.chunks(size).map(|names| self.call(area.tool, names)).collect();
                calls.into_iter().flatten()
            });
            let outcomes: Outcomes = outcomes.collect();
            fs::remove_file(self.yard.path("data/held")).unwrap();
            assert_eq!(held.join().unwrap()["hold"], "possible");
            outcomes
        });
        self.end_survivor(&mut outcomes);
        let after = self.notes();
        for (name, note) in &before {
            let same = after.get(name) == Some(note);
            assert!(same || outcomes[name] == "possible", "{name} changed its note: {}", outcomes[name]);
        }
        outcomes
    }

    /// The same attempts by the same user without a sandbox.
    pub fn unconfined(&self) -> Outcomes {
        let mut world = self.world.clone();
        world["launcher"] = world["pid"].clone();
        world["run"] = json!("unconfined");
        let names: Vec<&str> = attempts().map(|attempt| attempt.name).collect();
        let arguments = json!({"attempts": names, "world": world}).to_string();
        // With an inherited descriptor.
        let mut command = self.yard.command_of("sh");
        command.env("PLANTED", &self.marker);
        command.args(["-c", "exec python3 tools/attack.py \"$1\" 9<toolyard.toml", "sh", &arguments]);
        let mut outcomes = serde_json::from_value(run_for(command, LIMIT).expect(0).json()).unwrap();
        self.end_survivor(&mut outcomes);
        outcomes
    }

    pub fn marker(&self) -> String {
        self.marker.clone()
    }

    fn call(&self, tool: Tool, names: &[&str]) -> Outcomes {
        let arguments = json!({"attempts": names, "world": self.world}).to_string();
        let answer = self.server.post(tool.name(), arguments).json();
        if answer["error"].is_null() {
            return serde_json::from_value(answer["body"].clone()).unwrap_or_else(|_| panic!("{answer}"));
        }
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        let ends = [
            ("bytes of memory; the program and its child processes were killed", "killed (memory)"),
            ("ms of CPU time; the program and its child processes were killed", "killed (CPU time)"),
            ("processes; the program and its child processes were killed", "killed (processes)"),
            ("there is no tool", "not loaded"),
        ];
        let outcome = ends.into_iter().find(|(text, _)| message.contains(text));
        let outcome = outcome.map_or_else(|| format!("broken: {answer}"), |(_, word)| word.to_owned());
        names.iter().map(|name| ((*name).to_owned(), outcome.clone())).collect()
    }

    /// A process that was left running is an escape only if it still runs after the call.
    fn end_survivor(&self, outcomes: &mut Outcomes) {
        let survivors = processes_with(&format!("{}-survivor", self.marker));
        if survivors.is_empty() && outcomes["outlive_the_call"] == "possible" {
            outcomes.insert("outlive_the_call".to_owned(), "killed".to_owned());
        }
        for survivor in survivors {
            signal(survivor.split(' ').next().unwrap().parse().unwrap(), libc::SIGKILL);
        }
    }

    /// When the folder of each attempt and the note in it were changed, by name or by content.
    fn notes(&self) -> BTreeMap<String, [Option<(i64, i64)>; 2]> {
        let changed = |path: PathBuf| fs::metadata(path).ok().map(|meta| (meta.ctime(), meta.ctime_nsec()));
        let note = |name: &str| {
            let folder = self.outside.join(name);
            (name.to_owned(), [changed(folder.join("note")), changed(folder)])
        };
        attempts().map(|attempt| note(attempt.name)).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.outside);
    }
}

/// A folder with a folder and a note for each attempt, all of the user who runs the program.
fn notes_outside(run_as: RunAs, marker: &str) -> PathBuf {
    let outside = std::env::temp_dir().join(format!("outside-{marker}"));
    let give = |path: &Path| match run_as {
        RunAs::CurrentUser => {}
        RunAs::Nobody => chown(path, Some(NOBODY), Some(NOBODY)).unwrap(),
    };
    fs::create_dir(&outside).unwrap();
    give(&outside);
    for folder in attempts().map(|attempt| outside.join(attempt.name)) {
        let note = folder.join("note");
        fs::create_dir(&folder).unwrap();
        fs::write(&note, "#!/bin/sh\n# not for tools\n").unwrap();
        fs::set_permissions(&note, fs::Permissions::from_mode(0o755)).unwrap();
        give(&folder);
        give(&note);
    }
    outside
}

/// A setuid program of another user and a file that only that user may read; only root can create them.
fn files_of(other: u32, yard: &Yard) -> Option<[&'static str; 2]> {
    let [program, file] = ["id-of-another", "of-another"];
    if !is_root() {
        return None;
    }
    fs::copy("/usr/bin/id", yard.path(program)).unwrap();
    fs::write(yard.path(file), "not for tools").unwrap();
    for (path, mode) in [(program, 0o4755), (file, 0o600)] {
        chown(yard.path(path), Some(other), Some(other)).unwrap();
        fs::set_permissions(yard.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    Some([program, file])
}

/// Some file in the folder that is not empty.
fn file_with_content(folder: PathBuf) -> PathBuf {
    let mut left = vec![folder];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() && meta.len() > 0 {
            return path;
        }
    }
    panic!("the state folder holds nothing");
}
