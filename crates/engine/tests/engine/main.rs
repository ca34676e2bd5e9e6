//! The engine over the stores in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test states what it expects")]

mod cache;
mod gates;
mod histories;
mod jobs;
mod log;
mod questions;
mod recovery;
mod runs;
mod scripted;
mod tasks;
mod test_store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_protocol::{
    Annotations, Call, Digest, Edge, ExposedName, Limits, Payload, Sandbox, Timestamp, Timing, ToolName,
    ToolSpec,
};

/// A temporary folder, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        let id = new_id(&SystemClock, &SystemRandom);
        let path = std::env::temp_dir().join(format!("toolyard-engine-{id}"));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Recorded steps, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<&'static str>>>);

impl Trace {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A clock that is set by the test.
struct FakeClock(AtomicU64);

impl FakeClock {
    fn at(ms: u64) -> Arc<FakeClock> {
        Arc::new(FakeClock(AtomicU64::new(ms)))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

fn call(arguments: &'static str) -> Call {
    let id = new_id(&SystemClock, &SystemRandom);
    Call::new(id, "example.echo", Payload::json(arguments), Edge::Cli)
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: ToolName::parse("example.echo").unwrap(),
        exposed: ExposedName::parse("echo").unwrap(),
        kind: "process",
        source: "tools/echo.yaml".into(),
        about: Default::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        behavior: Default::default(),
        sandbox: Sandbox::None,
        permissions: Default::default(),
        examples: Vec::new(),
        limits: Limits { timeout: Duration::from_secs(1), input: 1024, output: 1024 },
        digest: Digest([0xab; 32]),
        input_schema: None,
        output_schema: None,
    }
}
