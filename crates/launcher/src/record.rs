//! What the launcher tells the daemon on the control socket; compiled into both, so it can't drift.

/// Bytes of one record: version, level, stage, zero, then errno and wait status as native `i32`.
pub const LEN: usize = 12;
/// Changes whenever the meaning of a byte does.
pub const VERSION: u8 = 2;

/// The tool was executed; the wait status is its own.
pub const STAGE_RAN: u8 = 0;
/// `execve` refused the program; errno says why.
pub const STAGE_EXEC: u8 = 1;
/// No way to hold the process tree could be set up; errno says why. The tool was not started.
pub const STAGE_SETUP: u8 = 2;

/// A step of the script failed; errno says why and the status is the number of the step. The tool was not started.
pub const STAGE_CONFINE: u8 = 3;

/// The letters of the flags argument: the ways to hold the tree, tried in the order given.
pub const LEVEL_PID_NAMESPACE: u8 = b'n';
pub const LEVEL_USER_PID_NAMESPACE: u8 = b'u';
pub const LEVEL_SUBREAPER: u8 = b's';
/// Set up the tree as for a tool, but let the tool's process end instead of executing anything.
pub const FLAG_PROBE: u8 = b'p';
/// Enter the user namespace that was handed over instead of making one.
pub const FLAG_JOIN: u8 = b'j';
/// A script waits on the control socket.
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
