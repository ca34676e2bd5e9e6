//! The launch script that the daemon writes to the control socket before it starts the launcher. Compiled
//! into both programs; writing, reading and describing a step come from the one list below.
//!
//! A script is a header followed by steps, which the tool's process runs in order before it executes the
//! tool. It stops at the first failure. Numbers are little-endian, texts end in NUL. All decisions are made
//! by the daemon.
#![allow(dead_code, reason = "each program uses its part")]

use core::ffi::CStr;
use core::fmt::{self, Display, Write};

/// Maximum length of a script, which the launcher reads into a static buffer.
pub const MAX: usize = 128 << 10;
/// Header: length of the whole script, clone flags for the tool's namespaces, and the descriptor of the cgroup
/// (version 2) that the tool's process is created in or 0; all `u32`.
pub const HEADER: usize = 12;

/// Descriptors that the daemon passes: user, network and ipc namespace, a pooled view, and cgroups: the folder of
/// one (version 2) or a file `tasks` for each controller (version 1).
pub const FD_USERNS: usize = 4;
pub const FD_NETNS: usize = 5;
pub const FD_IPCNS: usize = 6;
pub const FD_VIEW: usize = 7;
pub const FD_CGROUP: usize = 8;
pub const MAX_CGROUPS: usize = 3;
/// The first number that is free for other descriptors.
pub const FD_END: usize = FD_CGROUP + MAX_CGROUPS;

/// Tag bytes sent with a descriptor, which distinguish it from a record: notifications of system calls, a network
/// namespace, a listening socket, a view.
pub const TAG_TRACE: u8 = 0xfb;
pub const TAG_NETWORK: u8 = 0xfc;
pub const TAG_LISTENER: u8 = 0xfd;
pub const TAG_VIEW: u8 = 0xfe;

/// Each step: its code, its fields in their order in the script, and the words for an error message.
macro_rules! steps {
    ($($(#[$doc:meta])* $code:literal $step:ident { $($field:ident: $kind:ident),* } [$($word:expr),+];)*) => {
        /// One step. `T` is a text, any bytes without NUL for the writer and a `&CStr` for the reader; `B` is a
        /// block of bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Step<T, B> {
            $($(#[$doc])* $step { $($field: $kind),* },)*
        }

        impl<T: Text> Step<T, &[u8]> {
            /// Passes the bytes of the step to `put`, part by part. `false` if a text contains NUL: the script
            /// must not be used then.
            pub fn encode(&self, mut put: impl FnMut(&[u8])) -> bool {
                let mut valid = true;
                match self {
                    $(Step::$step { $($field),* } => {
                        put(&[$code]);
                        $(field!(put $kind $field put valid);)*
                    })*
                }
                valid
            }
        }

        impl<'a> Step<&'a CStr, &'a [u8]> {
            /// The next step. `None` if it is unknown or truncated.
            pub fn decode(script: &mut Reader<'a>) -> Option<Step<&'a CStr, &'a [u8]>> {
                match script.byte()? {
                    // The fields are evaluated in the order written.
                    $($code => Some(Step::$step { $($field: field!(take $kind script)),* }),)*
                    _ => None,
                }
            }
        }

        impl Display for Step<&CStr, &[u8]> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Step::$step { $($field),* } => {
                        $(#[allow(unused_variables, reason = "not every field is in the words")]
                        let $field = field!(show $kind $field);)*
                        [$(&$word as &dyn Display),+].into_iter().try_for_each(|word| word.fmt(f))
                    })*
                }
            }
        }
    };
}

/// How the fields are written, read and shown: numbers, texts (`T`), and blocks (`B`) after their length.
macro_rules! field {
    (put T $field:ident $put:ident $valid:ident) => {{
        let text = $field.bytes();
        $valid &= !text.contains(&0);
        $put(text);
        $put(&[0]);
    }};
    (put B $field:ident $put:ident $valid:ident) => {{
        $put(&($field.len() as u32).to_le_bytes());
        $put($field);
    }};
    (put $number:ident $field:ident $put:ident $valid:ident) => {
        $put(&$field.to_le_bytes())
    };
    (take T $script:ident) => {
        $script.text()?
    };
    (take B $script:ident) => {
        $script.block()?
    };
    (take $number:ident $script:ident) => {
        $script.$number()?
    };
    (show T $field:ident) => {
        Lossy($field.to_bytes())
    };
    (show B $field:ident) => {
        $field.len()
    };
    (show $number:ident $field:ident) => {
        $field
    };
}

steps! {
    /// Creates an empty root; then relative paths refer to it and absolute paths to the old root.
    1 Root {} ["create an empty root"];
    2 Dir { mode: u32, path: T } ["create the folder /", path];
    3 Symlink { target: T, path: T } ["create the link /", path];
    /// A small file.
    4 File { path: T, content: B } ["create the file /", path];
    /// Bind-mounts `source` at `path`; symbolic links are an error in both. With an `inode` other than 0 the
    /// source must be that one.
    5 Bind { attributes: u32, device: u64, inode: u64, source: T, path: T } ["mount ", source];
    /// Mounts a new file system of that kind.
    6 Mount { kind: T, flags: u32, options: T, path: T } ["mount a ", kind, " at /", path];
    /// Detaches the old root and makes the new one read-only.
    7 Pivot {} ["change the root"];
    8 Chdir { path: T } ["enter the working directory ", path];
    /// `own` limits count per user and are set only if the tool has its own user namespace.
    9 Limit { resource: u32, soft: u64, hard: u64, own: u32 } ["set a resource limit"];
    /// Listens on 127.0.0.1 and sends the socket to the daemon.
    10 Listen { port: u32 } ["open the proxy port"];
    /// Drops all capabilities, for later execs too.
    11 DropPrivileges {} ["drop privileges"];
    /// Creates a Landlock rule set; `size` is how much of the attributes the kernel knows.
    12 Ruleset { size: u32, fs: u64, net: u64, scoped: u64 } ["create the Landlock rule set"];
    /// Adds a rule to the rule set. Links are an error unless `follow` is 1. With an `inode` other than 0 the
    /// path must be that one.
    13 Rule { access: u64, follow: u32, device: u64, inode: u64, path: T } ["grant access to ", path];
    /// Applies the rule set.
    14 Restrict {} ["apply the Landlock rules"];
    /// Installs the seccomp filter.
    15 Filter { instructions: B } ["apply the system call filter"];
    /// Joins the namespace of that kind.
    16 Join { kind: u32, descriptor: u32 } ["join a shared namespace"];
    /// Sends this mount namespace to the daemon, to be pooled as a view.
    17 SendView {} ["send the view"];
    /// Enters a copy of a pooled view.
    18 EnterView { descriptor: u32 } ["enter the pooled view"];
    /// Moves the mount at `source` to `path`.
    19 Move { source: T, path: T } ["move a mount to /", path];
    /// Makes the mount at `path` read-only.
    20 Seal { path: T } ["make /", path, " read-only"];
    /// Moves this process into the cgroup whose file `tasks` is open.
    21 JoinCgroup { descriptor: u32 } ["join the cgroup of its limits"];
    /// Brings up the loopback interface of this network namespace.
    22 Loopback {} ["bring up the loopback interface"];
    /// Sends this network namespace to the daemon, to be used again after this run.
    23 SendNetwork {} ["send the network namespace"];
    /// Installs a seccomp filter that reports system calls, and sends the descriptor of the reports to the daemon.
    24 Trace { instructions: B } ["trace system calls"];
}

/// A text to be written, without its NUL.
pub trait Text {
    fn bytes(&self) -> &[u8];
}

impl Text for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Text for &CStr {
    fn bytes(&self) -> &[u8] {
        self.to_bytes()
    }
}

/// Reads the fields of a script; every read is bounded.
pub struct Reader<'a> {
    pub left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(n)?;
        self.left = left;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }

    fn text(&mut self) -> Option<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.left).ok()?;
        self.take(text.count_bytes() + 1)?;
        Some(text)
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }
}

/// Shows bytes as text, with a replacement character for what is not UTF-8.
struct Lossy<'a>(&'a [u8]);

impl Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}
