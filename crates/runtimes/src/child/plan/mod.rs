//! A confinement written out as the steps that bring it about. Everything is decided here; the launcher only
//! does as told, and says which step it could not do.

mod empty;
mod filter;
mod landlock;
mod place;
mod system;
mod view;

// Both sides compile the same file, so the two can't disagree about a byte.
#[path = "../../../launcher/plan.rs"]
mod op;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{ChildError, Confinement, Level, Network, PROXY_PORT};
pub use empty::Empty;
pub use op::{KEPT, LISTENER, MOUNTS};
use place::Wanted;
pub use system::System;

/// What no tool may exceed even where its cap comes from elsewhere: one step late is early enough.
const CPU_GRACE_SECONDS: u64 = 1;
/// Processes in the tool's user namespace that are not the tool's: the launcher and its keeper.
const OURS: u64 = 2;

/// The steps for one child.
pub struct Plan {
    bytes: Vec<u8>,
    /// Where each step begins.
    steps: Vec<usize>,
    /// What of the machine is shown, and what of that is masked again.
    pub shown: Vec<PathBuf>,
    pub masked: Vec<PathBuf>,
}

impl Plan {
    /// The steps that make a view and hand it over to be kept: it holds nothing that belongs to one run alone.
    pub fn view(confinement: &Confinement, system: &System) -> Result<Plan, ChildError> {
        let mut plan = Plan::empty();
        plan.step(op::KEEP);
        view::prepare(&mut plan, confinement, system, &place::wanted(confinement)?);
        plan.finish(libc::CLONE_NEWNS)
    }

    /// `None`: there is nothing to do. `kept`: the view comes from outside.
    pub fn new(
        confinement: &Confinement,
        system: &System,
        cwd: &Path,
        kept: bool,
    ) -> Result<Option<Plan>, ChildError> {
        let mut plan = Plan::empty();
        let wanted = match confinement.level {
            Level::None => Wanted::default(),
            _ => place::wanted(confinement)?,
        };
        let namespaces = match confinement.level {
            Level::None => 0,
            Level::Landlock => {
                if confinement.network == Network::Hosts {
                    return Err(refused("a list of hosts needs the full level", libc::EOPNOTSUPP));
                }
                0
            }
            Level::Full => {
                let (network, ipc) = plan.shared(confinement.network, system);
                if kept {
                    plan.step(op::VIEW).number(op::MOUNTS as u32);
                } else {
                    view::prepare(&mut plan, confinement, system, &wanted);
                }
                view::finish(&mut plan, confinement, system, &wanted, kept);
                plan.step(op::CHDIR).text(cwd.as_os_str().as_bytes());
                let mounts = if kept { 0 } else { libc::CLONE_NEWNS };
                mounts | libc::CLONE_NEWUTS | ipc | network
            }
        };
        plan.limits(confinement);
        if confinement.level > Level::None {
            if confinement.network == Network::Hosts {
                plan.step(op::LISTEN).number(u32::from(PROXY_PORT));
            }
            plan.step(op::POWERLESS);
            landlock::write(&mut plan, confinement, system, &wanted.places)?;
            // The last step: it forbids what the others do.
            plan.step(op::FILTER).block(&system.filter(confinement));
        }
        if plan.steps.is_empty() {
            return Ok(None);
        }
        plan.finish(namespaces).map(Some)
    }

    fn empty() -> Plan {
        Plan { bytes: vec![0; op::HEADER], steps: Vec::new(), shown: Vec::new(), masked: Vec::new() }
    }

    fn finish(mut self, namespaces: i32) -> Result<Plan, ChildError> {
        if self.bytes.len() > op::MAX {
            return Err(refused("too many paths for one program", libc::E2BIG));
        }
        let length = (self.bytes.len() as u32).to_le_bytes();
        self.bytes[..4].copy_from_slice(&length);
        self.bytes[4..8].copy_from_slice(&(namespaces as u32).to_le_bytes());
        Ok(self)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The error for a step the launcher could not do.
    pub fn failed(&self, step: i32, source: io::Error) -> ChildError {
        let at = usize::try_from(step).ok().and_then(|step| self.steps.get(step));
        let step =
            at.and_then(|at| describe(self.bytes.get(*at..)?)).unwrap_or_else(|| "unknown step".into());
        ChildError::Confinement { step, source }
    }

    /// Enters what can be shared; gives the flags of the namespaces that must be made: network, ipc.
    fn shared(&mut self, network: Network, system: &System) -> (i32, i32) {
        let own = if network == Network::Allow { 0 } else { libc::CLONE_NEWNET };
        if system.empty.is_none() {
            return (own, libc::CLONE_NEWIPC);
        }
        self.step(op::JOIN).number(libc::CLONE_NEWIPC as u32).number(op::IPC as u32);
        if network != Network::Deny {
            return (own, 0);
        }
        self.step(op::JOIN).number(libc::CLONE_NEWNET as u32).number(op::NETWORK as u32);
        (0, 0)
    }

    fn limits(&mut self, confinement: &Confinement) {
        let cpu = confinement.cpu.map(|cpu| cpu.as_millis().div_ceil(1000) as u64 + CPU_GRACE_SECONDS);
        let core = (confinement.level > Level::None).then_some(0);
        for (resource, limit, own) in [
            (libc::RLIMIT_CPU, cpu, false),
            (libc::RLIMIT_CORE, core, false),
            (libc::RLIMIT_NOFILE, confinement.files, false),
            (libc::RLIMIT_FSIZE, confinement.file_size, false),
            (libc::RLIMIT_NPROC, confinement.processes.map(|n| n.saturating_add(OURS)), true),
        ] {
            let Some(limit) = limit else { continue };
            self.step(op::LIMIT).number(resource).long(limit).long(limit).number(own.into());
        }
    }

    fn step(&mut self, op: u8) -> &mut Plan {
        self.steps.push(self.bytes.len());
        self.bytes.push(op);
        self
    }

    fn number(&mut self, number: u32) -> &mut Plan {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn long(&mut self, number: u64) -> &mut Plan {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Plan {
        self.bytes.extend(text.as_ref());
        self.bytes.push(0);
        self
    }

    /// A place in the new root: without the leading slash.
    fn inside(&mut self, path: &Path) -> &mut Plan {
        let bytes = path.as_os_str().as_bytes();
        self.text(bytes.strip_prefix(b"/").unwrap_or(bytes))
    }

    fn block(&mut self, bytes: &[u8]) -> &mut Plan {
        self.number(bytes.len() as u32);
        self.bytes.extend(bytes);
        self
    }
}

/// A confinement that is refused before anything is started.
fn refused(step: impl Into<String>, errno: i32) -> ChildError {
    ChildError::Confinement { step: step.into(), source: io::Error::from_raw_os_error(errno) }
}

/// A step in words, from its bytes.
fn describe(step: &[u8]) -> Option<String> {
    let (op, rest) = step.split_first()?;
    let texts = |skip: usize| {
        let mut parts = rest.get(skip..).unwrap_or_default().split(|byte| *byte == 0);
        let mut next = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        (next(), next())
    };
    Some(match *op {
        op::ROOT => "make an empty root".into(),
        op::DIR => format!("make the folder /{}", texts(4).0),
        op::SYMLINK => format!("make the link /{}", texts(0).1),
        op::FILE => format!("make the file /{}", texts(0).0),
        op::BIND => format!("show {}", texts(4).0),
        op::TMPFS => format!("mount a private folder at /{}", texts(4).1),
        op::PROC => "mount /proc".into(),
        op::PIVOT => "leave the old root".into(),
        op::CHDIR => format!("enter the working directory {}", texts(0).0),
        op::LIMIT => "set a resource limit".into(),
        op::LISTEN => "listen for the proxy".into(),
        op::POWERLESS => "give up all privileges".into(),
        op::RULESET => "begin the Landlock rules".into(),
        op::RULE => format!("grant {}", texts(8).0),
        op::RULE_SELF => "grant the program's own /proc entry".into(),
        op::RESTRICT => "put the Landlock rules in force".into(),
        op::FILTER => "put the system call filter in force".into(),
        op::JOIN => "enter an empty namespace".into(),
        op::KEEP => "hand over the view".into(),
        op::VIEW => "take a copy of the view".into(),
        op::MOVE => format!("show /{}", texts(0).1),
        op::SEAL => format!("seal /{}", texts(0).0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_is_told_in_words() {
        let mut plan = Plan::empty();
        plan.step(op::DIR).number(0o755).text("home/x");
        plan.step(op::BIND).number(1).text("/home/x").text("home/x");
        let words = |step| plan.failed(step, io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(words(0).contains("make the folder /home/x"), "{}", words(0));
        assert!(words(1).contains("show /home/x"), "{}", words(1));
        assert!(words(7).contains("unknown step"), "{}", words(7));
    }

    #[test]
    fn without_walls_and_limits_there_is_no_plan() {
        let system = System::new(
            crate::child::TreeLevel::Subreaper,
            &crate::child::image::Image::in_memory().unwrap(),
        );
        assert!(Plan::new(&Confinement::none(), &system, Path::new("/"), false).unwrap().is_none());
        let files = Confinement { files: Some(10), ..Confinement::none() };
        assert_eq!(Plan::new(&files, &system, Path::new("/"), false).unwrap().unwrap().steps.len(), 1);
    }
}
