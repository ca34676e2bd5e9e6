//! The launch script that the daemon writes to the control socket before it starts the launcher. Compiled
//! into both programs, so that they agree.
//!
//! A script is a header followed by steps, which the tool's process runs in order before it executes the
//! tool. It stops at the first failure. Numbers are little-endian, texts end in NUL. All decisions are made
//! by the daemon.

/// Maximum length of a script, which the launcher reads into a static buffer.
pub const MAX: usize = 128 << 10;
/// Header: length of the whole script, clone flags for the tool's namespaces, both `u32`.
pub const HEADER: usize = 8;

/// `{}`: creates an empty root; then relative paths refer to it and absolute paths to the old root.
pub const ROOT: u8 = 1;
/// `{mode u32, path}`
pub const DIR: u8 = 2;
/// `{target, path}`
pub const SYMLINK: u8 = 3;
/// `{path, length u32, bytes}`: a small file.
pub const FILE: u8 = 4;
/// `{attributes u32, source, path}`: bind-mounts `source`, which must not contain symbolic links, at `path`.
pub const BIND: u8 = 5;
/// `{flags u32, options, path}`
pub const TMPFS: u8 = 6;
/// `{path}`: mounts the `/proc` of this pid namespace, read-only.
pub const PROC: u8 = 7;
/// `{}`: detaches the old root and makes the new one read-only.
pub const PIVOT: u8 = 8;
/// `{path}`
pub const CHDIR: u8 = 9;
/// `{resource u32, soft u64, hard u64, own u32}`: `own` limits count per user and are set only if the tool
/// has its own user namespace.
pub const LIMIT: u8 = 10;
/// `{port u32}`: listens on 127.0.0.1 and sends the socket to the daemon.
pub const LISTEN: u8 = 11;
/// `{}`: drops all capabilities, for later execs too.
pub const DROP_PRIVILEGES: u8 = 12;
/// `{size u32, fs u64, net u64, scoped u64}`: creates a Landlock rule set.
pub const RULESET: u8 = 13;
/// `{access u64, path}`: adds a rule to the rule set.
pub const RULE: u8 = 14;
/// `{}`: applies the rule set.
pub const RESTRICT: u8 = 15;
/// `{length u32, instructions}`: installs the seccomp filter.
pub const FILTER: u8 = 16;

/// `{access u64}`: adds a rule for `/proc/self` of the tool's process.
pub const RULE_SELF: u8 = 17;

/// `{kind u32, descriptor u32}`: joins the namespace of that kind.
pub const JOIN: u8 = 18;

/// `{}`: sends this mount namespace to the daemon, to be pooled as a view.
pub const SEND_VIEW: u8 = 19;
/// `{descriptor u32}`: enters a copy of a pooled view.
pub const ENTER_VIEW: u8 = 20;
/// `{source, path}`: moves the mount at `source` to `path`.
pub const MOVE: u8 = 21;
/// `{path}`: makes the mount at `path` read-only.
pub const SEAL: u8 = 22;

/// Descriptors that the daemon passes: user, network and ipc namespace, and a pooled view.
pub const FD_USERNS: usize = 4;
#[allow(dead_code, reason = "written by the daemon only")]
pub const FD_NETNS: usize = 5;
#[allow(dead_code, reason = "written by the daemon only")]
pub const FD_IPCNS: usize = 6;
pub const FD_VIEW: usize = 7;

/// Tag bytes sent with a descriptor, which distinguish it from a record: a listening socket, a view.
#[allow(dead_code, reason = "read by the daemon only")]
pub const TAG_LISTENER: u8 = 0xfd;
#[allow(dead_code, reason = "read by the daemon only")]
pub const TAG_VIEW: u8 = 0xfe;
