//! The program as a process: run to completion within a time limit, or as a server.

use super::client::{Client, HttpResponse};
use super::{TIMEOUT, eventually, planted};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The program under test.
pub fn toolyard_path() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_toolyard"))
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; 128 + n when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// Stdout, which must be one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self:#?}"))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> CommandOutput {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// Runs the command to completion; one that takes longer than `limit` is killed and the test fails.
#[track_caller]
pub fn run_for(command: Command, limit: Duration) -> CommandOutput {
    Running::start(command).finish(limit)
}

/// A running command.
pub struct Running {
    pub child: Child,
    stdout: std::thread::JoinHandle<Vec<u8>>,
    stderr: std::thread::JoinHandle<Vec<u8>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, stdout: collect(stdout), stderr: collect(stderr) }
    }

    #[track_caller]
    pub fn finish(mut self, limit: Duration) -> CommandOutput {
        let status = wait(&mut self.child, limit);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
        let (stdout, stderr) = (text(self.stdout.join().unwrap()), text(self.stderr.join().unwrap()));
        CommandOutput { code: code(status), stdout, stderr }
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        planted::record_output(&bytes);
        bytes
    })
}

#[track_caller]
fn wait(child: &mut Child, limit: Duration) -> ExitStatus {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
}

pub fn signal(pid: u32, signal: libc::c_int) {
    let (pid, signal) = (Pid::from_raw(pid as i32).unwrap(), Signal::from_named_raw(signal).unwrap());
    rustix::process::kill_process(pid, signal).unwrap();
}

/// `toolyard serve`, killed when dropped.
pub struct Server {
    pub child: Child,
    pub address: String,
    stderr: Arc<Mutex<String>>,
}

impl Server {
    pub fn start(mut command: Command) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stderr = gather(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        planted::record_output(line.as_bytes());
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_whitespace().next());
        let address = address.unwrap_or_else(|| {
            let _ = child.kill();
            panic!("no address in {line:?}; stderr: {}", stderr.lock().unwrap())
        });
        Server { address: address.to_owned(), child, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    /// One request on a new connection.
    pub fn get(&self, path: &str) -> HttpResponse {
        self.client().send("GET", path, &[], b"")
    }

    pub fn post(&self, tool: &str, body: impl AsRef<[u8]>) -> HttpResponse {
        self.client().send("POST", &format!("/mcp/tool/{tool}"), &[], body.as_ref())
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The largest resident memory so far, in kilobytes.
    pub fn peak_memory_kb(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The resident memory now, in kilobytes.
    pub fn memory_kb(&self) -> u64 {
        self.status("VmRSS:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Stops the server with SIGTERM and returns its exit code.
    pub fn stop(mut self) -> i32 {
        signal(self.pid(), libc::SIGTERM);
        self.wait(TIMEOUT)
    }

    pub fn wait(&mut self, limit: Duration) -> i32 {
        code(wait(&mut self.child, limit))
    }

    pub fn kill(mut self) {
        signal(self.pid(), libc::SIGKILL);
        self.child.wait().unwrap();
    }

    pub fn wait_until_ready(&self) {
        eventually("the server answers", TIMEOUT, || self.get("/healthz").status == 200);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gather(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let into = text.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            planted::record_output(line.as_bytes());
            let mut text = into.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    });
    text
}
