//! The record that the launcher sends on the control socket. Compiled into both programs, so that they agree.

/// Bytes of one record: version, level, stage, zero, then errno and wait status as native `i32`.
pub const LEN: usize = 12;
/// Incremented whenever the meaning of a byte changes.
pub const VERSION: u8 = 2;

/// The tool was executed; the wait status is its own.
pub const STAGE_RAN: u8 = 0;
/// `execve` failed with errno.
pub const STAGE_EXEC: u8 = 1;
/// Containment of the process tree could not be set up; errno says why. The tool was not started.
pub const STAGE_SETUP: u8 = 2;

/// A step of the script failed with errno; the status is its index. The tool was not started.
pub const STAGE_CONFINE: u8 = 3;

/// Letters of the flags argument. Containment levels are tried in the order given.
pub const LEVEL_PID_NAMESPACE: u8 = b'n';
pub const LEVEL_USER_PID_NAMESPACE: u8 = b'u';
pub const LEVEL_SUBREAPER: u8 = b's';
/// Set up everything as for a tool, but exit instead of executing it.
pub const FLAG_PROBE: u8 = b'p';
/// Join the user namespace that was passed instead of creating one.
pub const FLAG_JOIN: u8 = b'j';
/// A launch script is on the control socket.
pub const FLAG_SCRIPT: u8 = b'c';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub level: u8,
    pub stage: u8,
    pub errno: i32,
    pub status: i32,
}

impl Record {
    #[allow(dead_code, reason = "the launcher writes records, the daemon reads them")]
    pub fn to_bytes(self) -> [u8; LEN] {
        let (e, s) = (self.errno.to_ne_bytes(), self.status.to_ne_bytes());
        [VERSION, self.level, self.stage, 0, e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3]]
    }

    #[allow(dead_code, reason = "the launcher writes records, the daemon reads them")]
    pub fn from_bytes(b: [u8; LEN]) -> Option<Record> {
        (b[0] == VERSION && b[3] == 0).then_some(Record {
            level: b[1],
            stage: b[2],
            errno: i32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
            status: i32::from_ne_bytes([b[8], b[9], b[10], b[11]]),
        })
    }
}
