//! The program on a terminal: what it shows is read, what a person would type is typed.

use super::{TIMEOUT, eventually};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// stdin and stderr are a terminal; stdout is a pipe, so that results can be told from talk.
pub struct Terminal {
    pub child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
    /// Up to where the screen was looked at.
    seen: usize,
}

impl Terminal {
    pub fn start(mut command: Command) -> Terminal {
        let (mut master, mut slave) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: both places take one descriptor each; the other arguments may be null.
        let made = unsafe { libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()) };
        assert_eq!(made, 0, "a terminal can be made");
        // SAFETY: both were just made and are ours alone.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        command.stdin(slave.try_clone().unwrap()).stderr(slave).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        // The command holds our copies of the terminal's other end; its end must show when the program is gone.
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

    /// Waits until this stands on the screen, after what was waited for before.
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

    /// The exit code (128 + n after a signal) and what stdout holds.
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
