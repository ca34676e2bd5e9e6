//! The specification of a tool.

use crate::{Digest, ExposedName, Payload, Timing, ToolName};
use std::fmt;
use std::time::Duration;

/// The description of one tool, the same for every edge.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: ToolName,
    pub exposed: ExposedName,
    /// How it runs: `cli`, `process`, `binary` …
    pub kind: &'static str,
    /// The path of the tool file, relative to the yard.
    pub source: String,
    pub about: About,
    pub annotations: Annotations,
    pub timing: Timing,
    pub limits: Limits,
    pub behavior: Behavior,
    pub sandbox: Sandbox,
    pub permissions: Permissions,
    /// Inputs with their expected results; `toolyard test` runs them.
    pub examples: Vec<Example>,
    /// Covers everything that defines the tool: manifest, schemas, entry files.
    pub digest: Digest,
    pub input_schema: Option<Payload>,
    pub output_schema: Option<Payload>,
}

/// What a run of the tool in its sandbox may use besides the system's programs and its own `/tmp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    pub files: Vec<FileGrant>,
    /// `deny`, `allow`, or the hosts it may reach; empty for a tool that runs in no sandbox.
    pub network: String,
}

/// A file or folder, as it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileGrant {
    pub path: String,
    pub writable: bool,
    pub origin: GrantOrigin,
}

/// Why a path is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOrigin {
    /// Every tool sees its yard.
    Yard,
    /// The program that runs the tool, and its installation.
    Program,
    /// The tool's file lists it.
    ToolFile,
}

impl GrantOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            GrantOrigin::Yard => "yard",
            GrantOrigin::Program => "program",
            GrantOrigin::ToolFile => "tool file",
        }
    }
}

/// Descriptive fields of a tool file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub version: Option<Version>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub categories: Vec<String>,
}

/// The limits of every call of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub timeout: Duration,
    /// Bytes of arguments.
    pub input: usize,
    /// Bytes of output, counted while it streams.
    pub output: usize,
}

/// The behavior that a tool file declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behavior {
    /// The same input gives the same result, so results may be cached.
    pub deterministic: bool,
    /// The tool receives the context object (caller, call id, deadline …).
    pub context: bool,
    /// The tool exchanges messages with its caller while it runs: progress, log lines, questions.
    pub dialog: bool,
    /// The caller of a job stays connected and can be asked for input until the tool detaches.
    pub attached: bool,
    /// The maximum number of concurrent calls.
    pub concurrency: Option<usize>,
    pub rate: Option<Rate>,
    pub retry: Option<Retry>,
    /// Set when only the owner of the yard may call the tool.
    pub guarded: Option<Guarded>,
}

/// Why only the owner may call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Its file says `guarded: true`.
    Declared,
    /// It runs outside the sandbox.
    Unconfined,
    /// It gets secrets.
    Secrets,
    /// It writes or deletes files of the owner.
    WritesFiles,
    /// It reads any file of the yard.
    ReadsFiles,
    /// It shows or changes artifacts, which are the owner's.
    Artifacts,
}

impl Guarded {
    pub fn as_str(self) -> &'static str {
        match self {
            Guarded::Declared => "declared",
            Guarded::Unconfined => "unconfined",
            Guarded::Secrets => "secrets",
            Guarded::WritesFiles => "writes_files",
            Guarded::ReadsFiles => "reads_files",
            Guarded::Artifacts => "artifacts",
        }
    }
}

/// The sandbox of a tool's processes, as enforced on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Namespaces, Landlock and seccomp.
    Full,
    /// Landlock and seccomp.
    Landlock,
    /// None: the tool can do what Toolyard's user can.
    None,
    /// No process is started.
    NotNeeded,
}

impl Sandbox {
    pub fn as_str(self) -> &'static str {
        match self {
            Sandbox::Full => "full",
            Sandbox::Landlock => "landlock",
            Sandbox::None => "none",
            Sandbox::NotNeeded => "not needed",
        }
    }

    pub fn parse(text: &str) -> Option<Sandbox> {
        [Sandbox::Full, Sandbox::Landlock, Sandbox::None, Sandbox::NotNeeded]
            .into_iter()
            .find(|sandbox| sandbox.as_str() == text)
    }
}

/// A rate limit: `calls` per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub calls: u32,
    pub per: Duration,
}

/// Retries of failed runs: up to `attempts` runs in all, with exponential backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    pub backoff: Duration,
}

/// One input and its expected result.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub name: Option<String>,
    pub input: Payload,
    pub expect: Expect,
}

/// The expected result of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// Success; any result that matches the output schema.
    Success,
    /// Exactly this result.
    Output(Payload),
    /// A failure with this code (`EINVAL` …) or kind (`invalid_input` …).
    Error(String),
}

/// MCP's four hints; `None` means not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// `major.minor.patch`, with an optional pre-release or build suffix that is not interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    tail: Box<str>,
}

impl Annotations {
    /// Changes nothing, here or elsewhere.
    pub const READ_ONLY: Annotations = Annotations {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };

    /// Adds something on every call.
    pub const ADDITIVE: Annotations = Annotations {
        read_only: Some(false),
        destructive: Some(false),
        idempotent: Some(false),
        open_world: Some(false),
    };

    /// Sets something; repeating the call has no further effect.
    pub const IDEMPOTENT: Annotations = Annotations { idempotent: Some(true), ..Annotations::ADDITIVE };

    /// Whether running the tool twice has the same effect as running it once.
    pub fn is_safe_to_repeat(&self) -> bool {
        self.read_only == Some(true) || self.idempotent == Some(true)
    }
}

impl Version {
    pub fn parse(text: &str) -> Option<Version> {
        let core_end = text.find(['-', '+']).unwrap_or(text.len());
        let (core, tail) = text.split_at(core_end);
        let tail_ok = tail.is_empty()
            || (tail.len() > 1
                && tail[1..].bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+')));
        let mut numbers = core.split('.').map(version_number);
        let version = Version {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
            tail: tail.into(),
        };
        (numbers.next().is_none() && tail_ok).then_some(version)
    }
}

/// A number without sign or leading zero, as semantic versioning requires.
fn version_number(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{}", self.major, self.minor, self.patch, self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for good in ["0.0.0", "1.2.3", "10.20.30-rc.1", "1.0.0+build.5"] {
            assert_eq!(Version::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "v1.2.3", "1.2.3-", "1.2.-3", "1.2.3 "] {
            assert_eq!(Version::parse(bad), None, "{bad:?} was accepted");
        }
    }
}
