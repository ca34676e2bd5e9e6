//! Compiles a confinement into a launch script. All decisions are made here; the launcher only runs the steps
//! and reports which one failed.

mod landlock;
mod mounts;
mod seccomp;
mod shared_namespaces;
mod system;
mod traced_calls;
mod view;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toolyard_launcher::script::{self, Reader, Step};
pub use toolyard_launcher::script::{FD_NETNS, FD_VIEW, TAG_LISTENER, TAG_NETWORK, TAG_TRACE, TAG_VIEW};

use super::cgroup::{Group, Version};
use super::{ChildError, Confinement, Network, PROXY_PORT, SandboxLevel};
pub use landlock::Landlock;
use mounts::ResolvedPaths;
pub use shared_namespaces::SharedNamespaces;
pub use system::SystemView;
pub use traced_calls::{PathArgument, TracedCall, traced_call};

/// Added to RLIMIT_CPU, which is only a backstop: the limit monitor enforces the exact limit first.
const CPU_GRACE_SECONDS: u64 = 1;
/// The launcher and its init, which count as processes of the tool's user namespace.
const LAUNCHER_PROCESSES: u64 = 2;

/// What a run enters instead of creating it.
#[derive(Clone, Copy, Default)]
pub struct Pooled {
    pub view: bool,
    pub network: bool,
}

/// The steps for one child.
pub struct LaunchScript {
    bytes: Vec<u8>,
    /// Offset of each step.
    steps: Vec<usize>,
    /// No text contained NUL.
    valid: bool,
    /// Host paths that are visible in the view, and those masked in it.
    pub shown: Vec<PathBuf>,
    pub masked: Vec<PathBuf>,
}

impl LaunchScript {
    /// The steps that create a view and send it to the daemon's pool; nothing in it is specific to one run.
    pub fn view(confinement: &Confinement, system: &SystemView) -> Result<LaunchScript, ChildError> {
        let mut script = LaunchScript::empty();
        script.push(Step::SendView {});
        view::prepare(&mut script, confinement, system, &mounts::resolve(confinement)?);
        script.finish(libc::CLONE_NEWNS, 0)
    }

    /// `None` if no steps are needed. `group`: the cgroup that counts what the tree holds.
    pub fn new(
        confinement: &Confinement,
        system: &SystemView,
        cwd: &Path,
        pooled: Pooled,
        group: Option<&Group>,
    ) -> Result<Option<LaunchScript>, ChildError> {
        let mut script = LaunchScript::empty();
        let cgroup = script.join_cgroup(group);
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
                let (network, ipc) = script.join_namespaces(confinement.network, system, pooled.network);
                if pooled.view {
                    script.push(Step::EnterView { descriptor: FD_VIEW as u32 });
                } else {
                    view::prepare(&mut script, confinement, system, &resolved);
                }
                view::finish(&mut script, confinement, system, &resolved, pooled.view);
                script.push(Step::Chdir { path: cwd.as_os_str().as_bytes() });
                let mounts = if pooled.view { 0 } else { libc::CLONE_NEWNS };
                mounts | libc::CLONE_NEWUTS | ipc | network
            }
        };
        script.limits(confinement);
        if confinement.level > SandboxLevel::None {
            if confinement.network == Network::Hosts {
                script.push(Step::Listen { port: u32::from(PROXY_PORT) });
            }
            script.push(Step::DropPrivileges {});
            landlock::write(&mut script, confinement, system, &resolved.mounts)?;
            if confinement.trace.is_some() {
                script.push(Step::Trace { instructions: &traced_calls::filter() });
            }
            // Last, because it denies system calls that the other steps need.
            let instructions = &system.filter(confinement, confinement.memory.is_none() || group.is_some());
            script.push(Step::Filter { instructions });
        }
        if script.steps.is_empty() && cgroup == 0 {
            return Ok(None);
        }
        script.finish(namespaces, cgroup).map(Some)
    }

    fn empty() -> LaunchScript {
        let (shown, masked) = (Vec::new(), Vec::new());
        LaunchScript { bytes: vec![0; script::HEADER], steps: Vec::new(), valid: true, shown, masked }
    }

    fn finish(mut self, namespaces: i32, cgroup: u32) -> Result<LaunchScript, ChildError> {
        if !self.valid {
            return Err(confinement_error("a path contains a NUL byte", libc::EINVAL));
        }
        if self.bytes.len() > script::MAX {
            return Err(confinement_error("too many paths for one program", libc::E2BIG));
        }
        let header = [self.bytes.len() as u32, namespaces as u32, cgroup].map(u32::to_le_bytes).concat();
        self.bytes[..script::HEADER].copy_from_slice(&header);
        Ok(self)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The error for a step that failed in the launcher.
    pub fn step_error(&self, step: i32, source: io::Error) -> ChildError {
        let at = usize::try_from(step).ok().and_then(|step| self.steps.get(step));
        let step = at.and_then(|at| Step::decode(&mut Reader { left: self.bytes.get(*at..)? }));
        let step = step.map_or_else(|| "unknown step".into(), |step| step.to_string());
        ChildError::Confinement { step, source }
    }

    /// Joins the cgroups of version 1; returns the descriptor of the one of version 2 that the process is created
    /// in, or 0.
    fn join_cgroup(&mut self, group: Option<&Group>) -> u32 {
        let Some(group) = group else { return 0 };
        if group.version() == Version::V2 {
            return script::FD_CGROUP as u32;
        }
        for (_, descriptor) in cgroup_descriptors(group) {
            self.push(Step::JoinCgroup { descriptor: descriptor as u32 });
        }
        0
    }

    /// Adds steps that join existing namespaces; returns the clone flags of those to create: (network, ipc).
    fn join_namespaces(&mut self, network: Network, system: &SystemView, pooled: bool) -> (i32, i32) {
        let is_shared = system.shared.is_some();
        if is_shared {
            self.push(Step::Join { kind: libc::CLONE_NEWIPC as u32, descriptor: script::FD_IPCNS as u32 });
        }
        let ipc = if is_shared { 0 } else { libc::CLONE_NEWIPC };
        if network == Network::Allow {
            return (0, ipc);
        }
        if pooled {
            self.push(Step::Join { kind: libc::CLONE_NEWNET as u32, descriptor: script::FD_NETNS as u32 });
            return (0, ipc);
        }
        self.push(Step::Loopback {});
        // Only with the shared user namespace can another run join it. The proxy's belongs to one run.
        if is_shared && network == Network::Deny {
            self.push(Step::SendNetwork {});
        }
        (libc::CLONE_NEWNET, ipc)
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
            self.push(Step::Limit { resource, soft: limit, hard: limit, own: own.into() });
        }
    }

    fn push(&mut self, step: NewStep<'_>) {
        self.steps.push(self.bytes.len());
        self.valid &= step.encode(|bytes| self.bytes.extend_from_slice(bytes));
    }
}

/// A step to be written.
type NewStep<'a> = Step<&'a [u8], &'a [u8]>;

/// The descriptors of a group with their numbers in the launcher.
pub fn cgroup_descriptors(group: &Group) -> impl Iterator<Item = (&OwnedFd, i32)> {
    group.entries().iter().zip(script::FD_CGROUP as i32..script::FD_END as i32)
}

/// A path relative to the new root: without the leading slash.
fn root_relative(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_prefix(b"/").unwrap_or(bytes)
}

/// The error for a confinement that is rejected before the launcher starts.
fn confinement_error(step: impl Into<String>, errno: i32) -> ChildError {
    ChildError::Confinement { step: step.into(), source: io::Error::from_raw_os_error(errno) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_described_in_the_error() {
        let mut script = LaunchScript::empty();
        script.push(Step::Dir { mode: 0o755, path: b"home/x" });
        script.push(Step::Bind { attributes: 1, device: 0, inode: 0, source: b"/home/x", path: b"home/x" });
        let words = |step| script.step_error(step, io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(words(0).contains("create the folder /home/x"), "{}", words(0));
        assert!(words(1).contains("mount /home/x"), "{}", words(1));
        assert!(words(7).contains("unknown step"), "{}", words(7));
    }

    /// The rest of such a path would be read as further steps.
    #[test]
    fn a_path_with_a_nul_byte_is_refused() {
        let mut script = LaunchScript::empty();
        script.push(Step::Chdir { path: b"/a\0\x01" });
        let error = script.finish(0, 0).err().unwrap().to_string();
        assert!(error.contains("NUL byte"), "{error}");
    }

    #[test]
    fn without_a_sandbox_and_limits_there_is_no_script() {
        let image = crate::image::Image::in_memory().unwrap();
        let system = SystemView::new(crate::TreeLevel::Subreaper, &image, Landlock::detect());
        let script = |confinement: &Confinement| {
            LaunchScript::new(confinement, &system, Path::new("/"), Pooled::default(), None).unwrap()
        };
        assert!(script(&Confinement::none()).is_none());
        let files = Confinement { files: Some(10), ..Confinement::none() };
        assert_eq!(script(&files).unwrap().steps.len(), 1);
    }
}
