//! From what a file declares to the sandbox its child really gets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_sandbox::proxy::HostRules;
use toolyard_sandbox::{Confinement, Network, SandboxLevel};

/// The sandbox a tool asks for. What it does not say is the default: no network, nothing writable but `/tmp`.
#[derive(Clone)]
pub struct SandboxRequest {
    /// The file has a `sandbox` field.
    pub is_declared: bool,
    /// `sandbox: none`, written out.
    pub is_disabled: bool,
    pub network: NetworkPolicy,
    /// Paths beyond the yard and the interpreter; absolute, or relative to the yard.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub memory: Option<u64>,
    pub cpu: Option<Duration>,
    pub processes: Option<u64>,
    pub tmp_bytes: u64,
}

#[derive(Clone)]
pub enum NetworkPolicy {
    Deny,
    Allow,
    Hosts(Arc<HostRules>),
}

impl SandboxRequest {
    /// A tool that says nothing.
    pub fn pack() -> SandboxRequest {
        SandboxRequest {
            is_declared: false,
            is_disabled: false,
            network: NetworkPolicy::Deny,
            read: Vec::new(),
            write: Vec::new(),
            memory: Some(1 << 30),
            cpu: None,
            processes: Some(256),
            tmp_bytes: 64 << 20,
        }
    }

    /// Seed 000's policy block has smaller defaults.
    pub fn manifest() -> SandboxRequest {
        SandboxRequest {
            memory: Some(128 << 20),
            cpu: Some(Duration::from_secs(2)),
            ..SandboxRequest::pack()
        }
    }

    /// Whether the level that this machine gives can hold what the file asks for; else why not.
    pub fn unsupported_reason(&self, level: SandboxLevel) -> Option<String> {
        match (&self.network, level) {
            (_, SandboxLevel::None) => {
                Some("this machine gives no sandbox (no namespaces and no Landlock)".to_owned())
            }
            (NetworkPolicy::Hosts(_), SandboxLevel::Landlock) => Some(
                "a list of hosts sandbox_request a network namespace, which this machine refuses".to_owned(),
            ),
            _ => None,
        }
    }
}

/// Everything about the sandbox that does not change from call to call.
pub struct SandboxBuilder {
    pub sandbox_request: SandboxRequest,
    pub level: SandboxLevel,
    pub root: PathBuf,
    pub state: PathBuf,
}

impl SandboxBuilder {
    /// The sandbox for one run of `program`.
    pub fn confinement(&self, program: &Path) -> Confinement {
        if self.level == SandboxLevel::None {
            return Confinement::none();
        }
        // Collecting the parts drops a '.', so that "." is the yard itself.
        let absolute = |path: &PathBuf| self.root.join(path).components().collect::<PathBuf>();
        let mut read: BTreeSet<PathBuf> = self.sandbox_request.read.iter().map(absolute).collect();
        read.insert(self.root.clone());
        read.extend(prefixes(program));
        Confinement {
            level: self.level,
            read: read.into_iter().collect(),
            write: self.sandbox_request.write.iter().map(absolute).collect(),
            hidden: vec![self.state.clone()],
            network: match self.sandbox_request.network {
                NetworkPolicy::Deny => Network::Deny,
                NetworkPolicy::Allow => Network::Allow,
                NetworkPolicy::Hosts(_) => Network::Hosts,
            },
            memory: self.sandbox_request.memory,
            cpu: self.sandbox_request.cpu,
            processes: self.sandbox_request.processes,
            files: Some(1024),
            file_size: None,
            tmp_bytes: self.sandbox_request.tmp_bytes,
        }
    }
}

/// Where an interpreter lives, when that is not with the system: a version manager's folder, a virtual
/// environment, and what those lead to.
fn prefixes(program: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut next = vec![program.to_owned()];
    while let Some(program) = next.pop() {
        if is_system(&program) || found.len() > 16 {
            continue;
        }
        let Some(prefix) = prefix(&program) else { continue };
        if !found.insert(prefix.clone()) {
            continue;
        }
        // A link leads to the real interpreter; a virtual environment names the one it was made from.
        next.extend(std::fs::canonicalize(&program));
        let config = std::fs::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
        let home =
            config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
        next.extend(home.map(|(_, home)| Path::new(home.trim()).join("python")));
    }
    found
}

/// `<prefix>/bin/program`, else the folder the program lies in.
fn prefix(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let prefix = if folder.file_name().is_some_and(|name| name == "bin") { folder.parent()? } else { folder };
    // Never a whole home folder or the root, whatever lies directly in it.
    (prefix.components().count() > 2 && !is_home(prefix))
        .then(|| prefix.to_owned())
        .or_else(|| Some(program.to_owned()))
}

fn is_home(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent == Path::new("/home")) || path == Path::new("/root")
}

fn is_system(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib64"].iter().any(|tree| path.starts_with(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_bring_their_prefix_and_the_system_brings_itself() {
        assert!(prefixes(Path::new("/usr/bin/python3")).is_empty());
        let found = prefixes(Path::new("/home/someone/.pyenv/versions/3.12/bin/python3"));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [PathBuf::from("/home/someone/.pyenv/versions/3.12")]
        );
        // A program directly in a home folder brings itself, not the home.
        assert_eq!(prefix(Path::new("/home/someone/tool")), Some(PathBuf::from("/home/someone/tool")));
        assert_eq!(prefix(Path::new("/root/bin/tool")), Some(PathBuf::from("/root/bin/tool")));
    }
}
