//! Builds the sandbox of a child from what the tool's file declares.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_sandbox::proxy::HostRules;
use toolyard_sandbox::{Confinement, Network, SandboxLevel};

/// The sandbox that a tool's file requests. By default no network, and only `/tmp` is writable.
#[derive(Clone)]
pub struct SandboxRequest {
    /// The file has a `sandbox` field.
    pub is_declared: bool,
    /// The file says `sandbox: none`.
    pub is_disabled: bool,
    pub network: NetworkPolicy,
    /// Paths in addition to the yard and the interpreter; absolute, or relative to the yard.
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
    /// Defaults of the toolpack format.
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

    /// Defaults of the manifest format, which are smaller.
    pub fn manifest() -> SandboxRequest {
        SandboxRequest {
            memory: Some(128 << 20),
            cpu: Some(Duration::from_secs(2)),
            ..SandboxRequest::pack()
        }
    }

    /// Why the machine's sandbox level cannot enforce this request; `None` if it can.
    pub fn unsupported_reason(&self, level: SandboxLevel) -> Option<String> {
        match (&self.network, level) {
            (_, SandboxLevel::None) => {
                Some("this machine supports no sandbox (neither namespaces nor Landlock)".to_owned())
            }
            (NetworkPolicy::Hosts(_), SandboxLevel::Landlock) => {
                Some("a list of hosts needs a network namespace, which this machine denies".to_owned())
            }
            _ => None,
        }
    }
}

/// Builds the sandbox of a tool; holds everything that does not change between calls.
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
        // Collecting the components normalizes "." to the yard itself.
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

/// Installation prefixes of an interpreter outside the system folders: a version manager's folder, a virtual
/// environment, and the interpreters they link to.
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
        // Follows links, and the base interpreter of a virtual environment.
        next.extend(std::fs::canonicalize(&program));
        let config = std::fs::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
        let home =
            config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
        next.extend(home.map(|(_, home)| Path::new(home.trim()).join("python")));
    }
    found
}

/// The prefix of `<prefix>/bin/program`, else the folder of the program.
fn prefix(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let prefix = if folder.file_name().is_some_and(|name| name == "bin") { folder.parent()? } else { folder };
    // Never a whole home folder or the root.
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
    fn only_interpreters_outside_the_system_add_their_prefix() {
        assert!(prefixes(Path::new("/usr/bin/python3")).is_empty());
        let found = prefixes(Path::new("/home/someone/.pyenv/versions/3.12/bin/python3"));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [PathBuf::from("/home/someone/.pyenv/versions/3.12")]
        );
        // A program directly in a home folder adds only itself.
        assert_eq!(prefix(Path::new("/home/someone/tool")), Some(PathBuf::from("/home/someone/tool")));
        assert_eq!(prefix(Path::new("/root/bin/tool")), Some(PathBuf::from("/root/bin/tool")));
    }
}
