//! Shared test support: temporary yards, the program with a time limit, a server, a small HTTP client.

mod client;
pub mod planted;
mod process;
#[path = "../../../../../tests/require.rs"]
mod require;
mod terminal;
mod upstream;
mod websocket;
mod yard;

pub use client::{Client, HttpResponse};
pub use process::{CommandOutput, Running, Server, run_for, signal, toolyard_path};
pub use require::require;
pub use terminal::Terminal;
pub use upstream::{Upstream, response};
pub use websocket::{Frame, WebSocket};
pub use yard::{Kind, RunAs, Yard};

use std::time::{Duration, Instant};

/// Long enough that only a hang reaches it, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Polls until `ask` returns true; panics with `what` after `limit`.
pub fn eventually(what: &str, limit: Duration, mut ask: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !ask() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    started.elapsed()
}

/// A unique word to find processes by.
pub fn marker() -> String {
    format!("mark-{}", unique())
}

/// The processes, without zombies, that have the marker in their arguments or environment.
pub fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|b| b.is_ascii_digit()) || pid == own {
            continue;
        }
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let (arguments, environment) = (read("cmdline"), read("environ"));
        let has = |bytes: &[u8]| bytes.windows(marker.len()).any(|window| window == marker.as_bytes());
        if has(&arguments) || has(&environment) {
            found.push(format!("{pid} {}", String::from_utf8_lossy(&arguments).replace('\0', " ")));
        }
    }
    found
}

#[track_caller]
pub fn assert_no_survivor(marker: &str, limit: Duration) {
    let started = Instant::now();
    loop {
        let left = processes_with(marker);
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < limit, "still alive after {limit:?}: {left:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{count}", std::process::id(), since.as_nanos())
}
