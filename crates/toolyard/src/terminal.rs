//! Reads a line from the terminal without echo.

use crate::output;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
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
struct EchoOff(Termios);

impl EchoOff {
    fn start() -> io::Result<EchoOff> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        // Without ISIG, Ctrl-C ends the line instead of the process, so that the echo is always restored.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(EchoOff(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // If it fails there is nothing left to do.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
