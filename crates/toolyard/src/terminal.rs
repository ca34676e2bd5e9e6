//! Reads a line from the terminal without echo.

use crate::output;
use std::io::{self, BufRead};

/// Reads until Enter. Ctrl-C is an error; the terminal settings are restored in every case.
pub fn read_hidden_line(question: &str) -> io::Result<String> {
    let quiet = EchoOff::start()?;
    output::ask(question);
    // The terminal delivers one line per read; `read_line` would wait for a newline after Ctrl-C.
    let mut stdin = io::stdin().lock();
    let read = stdin.fill_buf().map(<[u8]>::to_vec);
    drop(quiet);
    output::note("");
    let bytes = read?;
    stdin.consume(bytes.len());
    let line = String::from_utf8(bytes).map_err(|_| io::Error::other("the input is not UTF-8"))?;
    if line.contains(char::from(INTERRUPT)) {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
    }
    Ok(line)
}

/// Ctrl-C.
const INTERRUPT: u8 = 3;

/// The terminal without echo, until dropped.
struct EchoOff(libc::termios);

impl EchoOff {
    fn start() -> io::Result<EchoOff> {
        // SAFETY: a termios of zeros is a valid value, and the call fills it in.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: stdin is open and the pointer is valid for the call.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut quiet = before;
        // Without ISIG, Ctrl-C ends the line instead of the process, so that the echo is always restored.
        quiet.c_lflag &= !(libc::ECHO | libc::ISIG);
        quiet.c_cc[libc::VEOL] = INTERRUPT;
        // SAFETY: as above.
        if unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &quiet) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(EchoOff(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // SAFETY: as above; if it fails there is nothing left to do.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &self.0) };
    }
}
