//! Builds the sandbox of a child from what the tool's file declares.

use crate::grants::Places;
use crate::installation;
use crate::proxy_clients;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind, FileGrant, GrantOrigin, Permissions};
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

    /// The declared paths, with whether they may be written.
    pub fn paths(&self) -> impl Iterator<Item = (&PathBuf, bool)> {
        self.read.iter().map(|path| (path, false)).chain(self.write.iter().map(|path| (path, true)))
    }

    /// Why the machine's sandbox level cannot enforce this request; `None` if it can.
    pub fn unsupported_reason(&self, level: SandboxLevel) -> Option<&'static str> {
        match (&self.network, level) {
            (_, SandboxLevel::None) => {
                Some("this machine supports no sandbox (neither namespaces nor Landlock)")
            }
            (NetworkPolicy::Hosts(_), SandboxLevel::Landlock) => {
                Some("a list of hosts needs the level full, with a network namespace")
            }
            _ => None,
        }
    }
}

/// Builds the sandbox of a tool; holds everything that does not change between calls.
pub struct SandboxBuilder {
    pub sandbox_request: SandboxRequest,
    pub level: SandboxLevel,
    pub places: Arc<Places>,
}

impl SandboxBuilder {
    /// The sandbox for one run of `program`, with what the declared paths lead to now. `interpreter` runs the
    /// program, if it is a script; `environment` is the folder that was prepared for the tool.
    pub fn confinement(
        &self,
        program: &Path,
        interpreter: Option<&Path>,
        environment: Option<&Path>,
    ) -> Result<Confinement, Error> {
        let request = &self.sandbox_request;
        let SandboxRequest { memory, cpu, processes, .. } = *request;
        // The limits hold without a sandbox too.
        let limits = Confinement { memory, cpu, processes, ..Confinement::none() };
        if self.level == SandboxLevel::None {
            return Ok(limits);
        }
        let mut grants = Vec::with_capacity(request.read.len() + request.write.len());
        for (path, writable) in request.paths() {
            let grant = self.places.open(path, writable).map_err(|why| {
                let message = format!("the tool was not started: its path {} {why}", path.display());
                Error::new(ErrorKind::Unavailable, message)
                    .hint("correct 'sandbox.fs' in the tool's file, or create the folder")
            })?;
            grants.push(grant);
        }
        let mut read = installation::parts(program, environment, &self.places);
        if let Some(interpreter) = interpreter {
            read.extend(installation::parts(interpreter, None, &self.places));
        }
        read.push(self.places.root.clone());
        Ok(Confinement {
            level: self.level,
            read,
            grants,
            hidden: self.places.hidden_from(request.paths().map(|(path, _)| path)),
            provided: match request.network {
                NetworkPolicy::Hosts(_) => proxy_clients::files(),
                _ => Vec::new(),
            },
            network: match request.network {
                NetworkPolicy::Deny => Network::Deny,
                NetworkPolicy::Allow => Network::Allow,
                NetworkPolicy::Hosts(_) => Network::Hosts,
            },
            files: Some(1024),
            tmp_bytes: request.tmp_bytes,
            ..limits
        })
    }

    /// What a run would get now, apart from what every program sees. `programs` are the program and its interpreter.
    pub fn permissions(&self, programs: &[PathBuf], environment: Option<&Path>) -> Permissions {
        if self.level == SandboxLevel::None {
            return Permissions::default();
        }
        let network = match &self.sandbox_request.network {
            NetworkPolicy::Deny => "deny".to_owned(),
            NetworkPolicy::Allow => "allow".to_owned(),
            NetworkPolicy::Hosts(rules) => rules.to_string(),
        };
        let grant = |path: PathBuf, writable, origin| FileGrant {
            path: path.display().to_string(),
            writable,
            origin,
        };
        let mut grants = vec![grant(self.places.root.clone(), false, GrantOrigin::Yard)];
        let parts = programs.iter().flat_map(|program| installation::parts(program, None, &self.places));
        let parts = parts.chain(environment.map(Path::to_owned));
        grants.extend(parts.map(|path| grant(path, false, GrantOrigin::Program)));
        let opened =
            self.sandbox_request.paths().filter_map(|(path, writable)| self.places.open(path, writable).ok());
        grants.extend(opened.map(|opened| grant(opened.path, opened.writable, GrantOrigin::ToolFile)));
        Permissions { files: grants, network }
    }
}
