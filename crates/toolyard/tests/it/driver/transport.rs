//! The transport interface of the scenarios, which run over every implementation.

use crate::support::{TIMEOUT, Yard, planted};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub trait Transport {
    fn send(&mut self, message: &Value);

    /// The next message of the server; `None` after `until` or when the connection is closed.
    fn receive(&mut self, until: Instant) -> Option<Value>;

    /// Closes the client's side. Returns the remaining messages and how the server ended.
    fn close(self: Box<Self>) -> (Vec<Value>, Result<(), String>);
}

/// A program that speaks on its standard input and output, one message per line.
pub struct Pipes {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
}

impl Pipes {
    /// `toolyard stdio DIR`
    pub fn toolyard(yard: &Yard) -> Pipes {
        let mut command = yard.command();
        command.arg("stdio").arg(yard.root()).current_dir("/");
        Pipes::start(command)
    }

    pub fn start(mut command: Command) -> Pipes {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, stdout, mut stderr) =
            (child.stdin.take(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            planted::record_output(&said);
        });
        let (into, output) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                planted::record_output(line.as_bytes());
                // Lines that are not JSON are passed on as strings, so that a scenario fails on them.
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if into.send(message).is_err() {
                    return;
                }
            }
        });
        Pipes { child, input, output }
    }

    fn wait(&mut self) -> Result<(), String> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("it ended with {status}")),
                None if Instant::now() > until => return Err("it goes on after the end of its input".into()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Transport for Pipes {
    fn send(&mut self, message: &Value) {
        // A dead server shows as a missing response.
        let _ = writeln!(self.input.as_mut().unwrap(), "{message}");
    }

    fn receive(&mut self, until: Instant) -> Option<Value> {
        self.output.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    fn close(mut self: Box<Self>) -> (Vec<Value>, Result<(), String>) {
        drop(self.input.take());
        let ended = self.wait();
        (self.output.iter().collect(), ended)
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
