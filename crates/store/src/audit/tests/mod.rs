//! The audit log on real files; crashes and full disks are tested with real processes.

mod chain;
mod crash;
mod full;
mod grouped;
mod index;
mod load;
mod prune;
mod tamper;

use super::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolyard_engine::clock::{Clock, Random, SystemClock, SystemRandom, new_id};
use toolyard_protocol::*;

/// A temporary folder, removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        let id = new_id(&SystemClock, &SystemRandom);
        let path = std::env::temp_dir().join(format!("toolyard-audit-{id}"));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stands in for the view in `formats` and enforces its contract: `members` takes flat objects only.
pub(crate) struct TestJsonView;

impl JsonView for TestJsonView {
    fn redacted(&self, payload: &Payload, cap: usize) -> Result<Vec<u8>, Error> {
        let mut value: Value = serde_json::from_slice(payload.bytes())
            .map_err(|e| Error::new(ErrorKind::InvalidInput, e.to_string()))?;
        if let Some(secret) = value.get_mut("password") {
            *secret = "[redacted]".into();
        }
        let text = serde_json::to_vec(&value).unwrap();
        Ok(if text.len() <= cap { text } else { format!("{{\"bytes\":{}}}", text.len()).into_bytes() })
    }

    fn members(&self, json: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Error> {
        let value: Value =
            serde_json::from_slice(json).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
        let object = value.as_object().expect("an object");
        assert!(object.values().all(|v| !v.is_object() && !v.is_array()), "not flat: {value}");
        Ok(names.iter().map(|name| object.get(*name)?.as_str().map(str::to_owned)).collect())
    }
}

/// A clock that advances only when it is set.
pub(crate) struct FakeClock(pub AtomicU64);

impl FakeClock {
    pub fn at(ms: u64) -> Arc<FakeClock> {
        Arc::new(FakeClock(AtomicU64::new(ms)))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

/// Counts instead of drawing random bytes, so that ids are the same in every run.
struct CountingRandom(AtomicU64);

impl Random for CountingRandom {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::SeqCst) as u8);
    }
}

fn open(state: &Path, options: Options) -> Arc<FileAuditLog> {
    FileAuditLog::open(state, options, Arc::new(SystemClock), Arc::new(SystemRandom), Arc::new(TestJsonView))
        .unwrap()
}

fn at(state: &Path, clock: &Arc<FakeClock>, view: Arc<dyn JsonView>) -> Arc<FileAuditLog> {
    let random = Arc::new(CountingRandom(AtomicU64::new(1)));
    FileAuditLog::open(state, Options::default(), clock.clone(), random, view).unwrap()
}

pub(crate) fn call(arguments: &'static str) -> Call {
    call_with(new_id(&SystemClock, &SystemRandom), arguments)
}

fn call_with(id: Id, arguments: &'static str) -> Call {
    Call {
        id,
        tool: "example.echo".into(),
        arguments: Payload::json(arguments),
        identity: Identity::local(),
        edge: Edge::Cli,
        deadline: None,
        wait: Default::default(),
        trace: None,
        idempotency_key: None,
    }
}

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: ToolName::parse("example.echo").unwrap(),
        exposed: ExposedName::parse("echo").unwrap(),
        kind: "process",
        source: "tools/echo.yaml".into(),
        about: Default::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        behavior: Default::default(),
        sandbox: toolyard_protocol::Sandbox::None,
        permissions: Default::default(),
        examples: Vec::new(),
        limits: Limits { timeout: Duration::from_secs(1), input: 1024, output: 1024 },
        digest: Digest([0xab; 32]),
        input_schema: None,
        output_schema: None,
    }
}

fn success(micros: u64) -> Outcome {
    let mut outcome = Outcome::success(Some(Payload::json("{\"ok\":true}")));
    outcome.meta.duration = Duration::from_micros(micros);
    outcome
}

fn files(state: &Path, folder: &str, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state.join(folder)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_str().unwrap().ends_with(suffix));
    paths.sort();
    paths
}

fn segments(state: &Path) -> Vec<PathBuf> {
    files(state, "audit", ".jsonl")
}

/// Every record of every segment, parsed by a real JSON parser.
fn records(state: &Path) -> Vec<Value> {
    let mut out = Vec::new();
    export(state, &mut out, &ExportFilter::default()).unwrap();
    out.split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[track_caller]
fn assert_sound(state: &Path) -> Report {
    let report = verify(state).unwrap();
    assert_eq!(report.problems, [], "{report:?}");
    report
}

/// A command that runs only the helper `test` of this test binary, with `variable` set.
fn helper(test: &str, variable: &str, value: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", test]).env(variable, value);
    command
}
