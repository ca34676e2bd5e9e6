//! The program on a pseudo-terminal: reads the screen and types input.

use super::{TIMEOUT, eventually};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Stdin and stderr are a terminal; stdout is a pipe, to separate results from messages.
pub struct Terminal {
    pub child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
    /// How much of the output was matched already.
    seen: usize,
}

impl Terminal {
    pub fn start(mut command: Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        let master = File::from(master);
        command.stdin(slave.try_clone().unwrap()).stderr(slave).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        // The command holds copies of the terminal's other end; they must be closed for reads to end.
        drop(command);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, into) = (master.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Terminal { child, keyboard: master, shown, seen: 0 }
    }

    /// Waits until the text appears on the screen, after the last match.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let started = std::time::Instant::now();
        loop {
            let shown = self.shown();
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(started.elapsed() < TIMEOUT, "no {text:?} on the screen: {shown:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// The exit code (128 + n after a signal) and stdout.
    pub fn finish(mut self) -> (i32, String) {
        let mut status = None;
        eventually("the program ends", TIMEOUT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let status = status.unwrap();
        (status.code().or(status.signal().map(|signal| 128 + signal)).unwrap(), stdout)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
