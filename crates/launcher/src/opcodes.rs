//! The confinement of one tool as the daemon writes it to the control socket before it starts the launcher;
//! compiled into both, so it can't drift.
//!
//! A script is a header and then steps, run in order by the tool's process before it executes the tool. The first
//! that fails ends it. Numbers are native, texts end in NUL. All decisions are the daemon's: the launcher knows
//! how to do a step, never which.

/// The longest script; the launcher keeps it in memory of its own.
pub const MAX: usize = 128 << 10;
/// Header: length of the whole script, clone flags for the tool's namespaces, both `u32`.
pub const HEADER: usize = 8;

/// `{}`: a new, empty root; from here on relative paths are in it and absolute ones in the old root.
pub const ROOT: u8 = 1;
/// `{mode u32, path}`
pub const DIR: u8 = 2;
/// `{target, path}`
pub const SYMLINK: u8 = 3;
/// `{path, length u32, bytes}`: a small file.
pub const FILE: u8 = 4;
/// `{attributes u32, source, path}`: everything at `source`, which must have no link in it, shown at `path`.
pub const BIND: u8 = 5;
/// `{flags u32, options, path}`
pub const TMPFS: u8 = 6;
/// `{path}`: the processes of this pid namespace, read-only.
pub const PROC: u8 = 7;
/// `{}`: the new root becomes the only one and read-only.
pub const PIVOT: u8 = 8;
/// `{path}`
pub const CHDIR: u8 = 9;
/// `{resource u32, soft u64, hard u64, own u32}`: `own` limits count per user and are set only where the tool
/// has a user namespace of its own.
pub const LIMIT: u8 = 10;
/// `{port u32}`: a listening socket on 127.0.0.1, sent to the daemon.
pub const LISTEN: u8 = 11;
/// `{}`: no capabilities, now and after any exec.
pub const DROP_PRIVILEGES: u8 = 12;
/// `{size u32, fs u64, net u64, scoped u64}`: begins a Landlock rule set.
pub const RULESET: u8 = 13;
/// `{access u64, path}`: grants in the rule set.
pub const RULE: u8 = 14;
/// `{}`: the rule set holds from here on.
pub const RESTRICT: u8 = 15;
/// `{length u32, instructions}`: the system call filter.
pub const FILTER: u8 = 16;

/// `{access u64}`: grants in the rule set what the tool's own process shows of itself in `/proc`.
pub const RULE_SELF: u8 = 17;

/// `{kind u32, descriptor u32}`: enters the namespace of that kind.
pub const JOIN: u8 = 18;

/// `{}`: sends the daemon this mount namespace, to be pooled as a view.
pub const SEND_VIEW: u8 = 19;
/// `{descriptor u32}`: a copy of a pooled view takes the place of the machine's.
pub const ENTER_VIEW: u8 = 20;
/// `{source, path}`: what is mounted at `source` goes to `path`.
pub const MOVE: u8 = 21;
/// `{path}`: what is mounted there can't be changed any more.
pub const SEAL: u8 = 22;

/// Descriptors of shared namespaces that the daemon hands over: users, network, ipc, a pooled view.
pub const FD_USERNS: usize = 4;
#[allow(dead_code, reason = "written by the daemon only")]
pub const FD_NETNS: usize = 5;
#[allow(dead_code, reason = "written by the daemon only")]
pub const FD_IPCNS: usize = 6;
pub const FD_VIEW: usize = 7;

/// The bytes that accompany descriptors, so that the daemon can tell them from a record: a listening socket, a view.
#[allow(dead_code, reason = "read by the daemon only")]
pub const TAG_LISTENER: u8 = 0xfd;
#[allow(dead_code, reason = "read by the daemon only")]
pub const TAG_VIEW: u8 = 0xfe;
