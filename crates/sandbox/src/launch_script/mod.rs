//! Compiles a confinement into a launch script. All decisions are made here; the launcher only runs the steps
//! and reports which one failed.

mod landlock;
mod mounts;
mod seccomp;
mod shared_namespaces;
mod system;
mod view;

use toolyard_launcher::opcodes as op;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{ChildError, Confinement, Network, PROXY_PORT, SandboxLevel};
use mounts::ResolvedPaths;
pub use op::{FD_VIEW, TAG_LISTENER, TAG_VIEW};
pub use shared_namespaces::SharedNamespaces;
pub use system::SystemView;

/// Added to RLIMIT_CPU, which is only a backstop: the limit monitor enforces the exact limit first.
const CPU_GRACE_SECONDS: u64 = 1;
/// The launcher and its init, which count as processes of the tool's user namespace.
const LAUNCHER_PROCESSES: u64 = 2;

/// The steps for one child.
pub struct LaunchScript {
    bytes: Vec<u8>,
    /// Offset of each step.
    steps: Vec<usize>,
    /// Host paths that are visible in the view, and those masked in it.
    pub shown: Vec<PathBuf>,
    pub masked: Vec<PathBuf>,
}

impl LaunchScript {
    /// The steps that create a view and send it to the daemon's pool; nothing in it is specific to one run.
    pub fn view(confinement: &Confinement, system: &SystemView) -> Result<LaunchScript, ChildError> {
        let mut script = LaunchScript::empty();
        script.step(op::SEND_VIEW);
        view::prepare(&mut script, confinement, system, &mounts::resolve(confinement)?);
        script.finish(libc::CLONE_NEWNS)
    }

    /// `None` if no steps are needed. `pooled`: a pooled view is entered instead of creating one.
    pub fn new(
        confinement: &Confinement,
        system: &SystemView,
        cwd: &Path,
        pooled: bool,
    ) -> Result<Option<LaunchScript>, ChildError> {
        let mut script = LaunchScript::empty();
        let resolved = match confinement.level {
            SandboxLevel::None => ResolvedPaths::default(),
            _ => mounts::resolve(confinement)?,
        };
        let namespaces = match confinement.level {
            SandboxLevel::None => 0,
            SandboxLevel::Landlock => {
                if confinement.network == Network::Hosts {
                    return Err(confinement_error("a list of hosts needs level full", libc::EOPNOTSUPP));
                }
                0
            }
            SandboxLevel::Full => {
                let (network, ipc) = script.join_namespaces(confinement.network, system);
                if pooled {
                    script.step(op::ENTER_VIEW).number(op::FD_VIEW as u32);
                } else {
                    view::prepare(&mut script, confinement, system, &resolved);
                }
                view::finish(&mut script, confinement, system, &resolved, pooled);
                script.step(op::CHDIR).text(cwd.as_os_str().as_bytes());
                let mounts = if pooled { 0 } else { libc::CLONE_NEWNS };
                mounts | libc::CLONE_NEWUTS | ipc | network
            }
        };
        script.limits(confinement);
        if confinement.level > SandboxLevel::None {
            if confinement.network == Network::Hosts {
                script.step(op::LISTEN).number(u32::from(PROXY_PORT));
            }
            script.step(op::DROP_PRIVILEGES);
            landlock::write(&mut script, confinement, system, &resolved.mounts)?;
            // Last, because it denies system calls that the other steps need.
            script.step(op::FILTER).block(&system.filter(confinement));
        }
        if script.steps.is_empty() {
            return Ok(None);
        }
        script.finish(namespaces).map(Some)
    }

    fn empty() -> LaunchScript {
        LaunchScript { bytes: vec![0; op::HEADER], steps: Vec::new(), shown: Vec::new(), masked: Vec::new() }
    }

    fn finish(mut self, namespaces: i32) -> Result<LaunchScript, ChildError> {
        if self.bytes.len() > op::MAX {
            return Err(confinement_error("too many paths for one program", libc::E2BIG));
        }
        let length = (self.bytes.len() as u32).to_le_bytes();
        self.bytes[..4].copy_from_slice(&length);
        self.bytes[4..8].copy_from_slice(&(namespaces as u32).to_le_bytes());
        Ok(self)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The error for a step that failed in the launcher.
    pub fn step_error(&self, step: i32, source: io::Error) -> ChildError {
        let at = usize::try_from(step).ok().and_then(|step| self.steps.get(step));
        let step =
            at.and_then(|at| describe(self.bytes.get(*at..)?)).unwrap_or_else(|| "unknown step".into());
        ChildError::Confinement { step, source }
    }

    /// Adds steps that join shared namespaces; returns the clone flags of those to create: (network, ipc).
    fn join_namespaces(&mut self, network: Network, system: &SystemView) -> (i32, i32) {
        let own = if network == Network::Allow { 0 } else { libc::CLONE_NEWNET };
        if system.shared.is_none() {
            return (own, libc::CLONE_NEWIPC);
        }
        self.step(op::JOIN).number(libc::CLONE_NEWIPC as u32).number(op::FD_IPCNS as u32);
        if network != Network::Deny {
            return (own, 0);
        }
        self.step(op::JOIN).number(libc::CLONE_NEWNET as u32).number(op::FD_NETNS as u32);
        (0, 0)
    }

    fn limits(&mut self, confinement: &Confinement) {
        let cpu = confinement.cpu.map(|cpu| cpu.as_millis().div_ceil(1000) as u64 + CPU_GRACE_SECONDS);
        let core = (confinement.level > SandboxLevel::None).then_some(0);
        for (resource, limit, own) in [
            (libc::RLIMIT_CPU, cpu, false),
            (libc::RLIMIT_CORE, core, false),
            (libc::RLIMIT_NOFILE, confinement.files, false),
            (libc::RLIMIT_FSIZE, confinement.file_size, false),
            (libc::RLIMIT_NPROC, confinement.processes.map(|n| n.saturating_add(LAUNCHER_PROCESSES)), true),
        ] {
            let Some(limit) = limit else { continue };
            self.step(op::LIMIT).number(resource).long(limit).long(limit).number(own.into());
        }
    }

    fn step(&mut self, op: u8) -> &mut LaunchScript {
        self.steps.push(self.bytes.len());
        self.bytes.push(op);
        self
    }

    fn number(&mut self, number: u32) -> &mut LaunchScript {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn long(&mut self, number: u64) -> &mut LaunchScript {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn text(&mut self, text: impl AsRef<[u8]>) -> &mut LaunchScript {
        self.bytes.extend(text.as_ref());
        self.bytes.push(0);
        self
    }

    /// Appends a path relative to the new root: without the leading slash.
    fn root_relative(&mut self, path: &Path) -> &mut LaunchScript {
        let bytes = path.as_os_str().as_bytes();
        self.text(bytes.strip_prefix(b"/").unwrap_or(bytes))
    }

    fn block(&mut self, bytes: &[u8]) -> &mut LaunchScript {
        self.number(bytes.len() as u32);
        self.bytes.extend(bytes);
        self
    }
}

/// The error for a confinement that is rejected before the launcher starts.
fn confinement_error(step: impl Into<String>, errno: i32) -> ChildError {
    ChildError::Confinement { step: step.into(), source: io::Error::from_raw_os_error(errno) }
}

/// Decodes a step for an error message.
fn describe(step: &[u8]) -> Option<String> {
    let (op, rest) = step.split_first()?;
    let texts = |skip: usize| {
        let mut parts = rest.get(skip..).unwrap_or_default().split(|byte| *byte == 0);
        let mut next = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        (next(), next())
    };
    Some(match *op {
        op::ROOT => "create an empty root".into(),
        op::DIR => format!("create the folder /{}", texts(4).0),
        op::SYMLINK => format!("create the link /{}", texts(0).1),
        op::FILE => format!("create the file /{}", texts(0).0),
        op::BIND => format!("mount {}", texts(4).0),
        op::TMPFS => format!("mount a tmpfs at /{}", texts(4).1),
        op::PROC => "mount /proc".into(),
        op::PIVOT => "change the root".into(),
        op::CHDIR => format!("enter the working directory {}", texts(0).0),
        op::LIMIT => "set a resource limit".into(),
        op::LISTEN => "open the proxy port".into(),
        op::DROP_PRIVILEGES => "drop privileges".into(),
        op::RULESET => "create the Landlock rule set".into(),
        op::RULE => format!("grant access to {}", texts(8).0),
        op::RULE_SELF => "grant access to /proc/self".into(),
        op::RESTRICT => "apply the Landlock rules".into(),
        op::FILTER => "apply the system call filter".into(),
        op::JOIN => "join a shared namespace".into(),
        op::SEND_VIEW => "send the view".into(),
        op::ENTER_VIEW => "enter the pooled view".into(),
        op::MOVE => format!("move a mount to /{}", texts(0).1),
        op::SEAL => format!("make /{} read-only", texts(0).0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_described_in_the_error() {
        let mut script = LaunchScript::empty();
        script.step(op::DIR).number(0o755).text("home/x");
        script.step(op::BIND).number(1).text("/home/x").text("home/x");
        let words = |step| script.step_error(step, io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(words(0).contains("create the folder /home/x"), "{}", words(0));
        assert!(words(1).contains("mount /home/x"), "{}", words(1));
        assert!(words(7).contains("unknown step"), "{}", words(7));
    }

    #[test]
    fn without_a_sandbox_and_limits_there_is_no_script() {
        let system = SystemView::new(crate::TreeLevel::Subreaper, &crate::image::Image::in_memory().unwrap());
        assert!(LaunchScript::new(&Confinement::none(), &system, Path::new("/"), false).unwrap().is_none());
        let files = Confinement { files: Some(10), ..Confinement::none() };
        assert_eq!(
            LaunchScript::new(&files, &system, Path::new("/"), false).unwrap().unwrap().steps.len(),
            1
        );
    }
}
