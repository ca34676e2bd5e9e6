//! The parts of the machine a tool may use: environment variables and programs on the search path.

use crate::trace_report::TraceRequest;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use toolyard_protocol::SecretName;
use toolyard_protocol::secret::VARIABLE_PREFIX;

/// The environment at program start. Only the binary reads the real environment.
pub struct Host {
    env: HashMap<OsString, OsString>,
    /// Secret variables are stored separately, so that they are not passed through by accident.
    secrets: Vec<(String, OsString)>,
    search: Vec<PathBuf>,
    // Cache: many tools share one interpreter.
    found: Mutex<HashMap<String, PathBuf>>,
    // Executables behind the shims of version managers.
    shim_targets: Mutex<HashMap<PathBuf, PathBuf>>,
    own_ports: Mutex<Vec<u16>>,
    server_ports: OnceLock<Ports>,
    trace: OnceLock<Arc<TraceRequest>>,
}

type Ports = Box<dyn Fn() -> Vec<u16> + Send + Sync>;

impl Host {
    pub fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Host {
        let mut env: HashMap<OsString, OsString> = env.into_iter().collect();
        let is_secret = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with(VARIABLE_PREFIX));
        let secrets = env.extract_if(|name, _| is_secret(name));
        let secrets = secrets.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let default = OsString::from("/usr/local/bin:/usr/bin:/bin");
        let path = env.get(OsStr::new("PATH")).unwrap_or(&default);
        // A relative entry would depend on the current directory.
        let search = std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
        Host {
            env,
            secrets,
            search,
            found: Mutex::default(),
            shim_targets: Mutex::default(),
            own_ports: Mutex::default(),
            server_ports: OnceLock::new(),
            trace: OnceLock::new(),
        }
    }

    /// Traces the tool that this process runs next. The first call counts.
    pub fn set_trace(&self, trace: Arc<TraceRequest>) {
        let _ = self.trace.set(trace);
    }

    pub fn trace(&self) -> Option<&TraceRequest> {
        self.trace.get().map(Arc::as_ref)
    }

    /// Whether a server of this yard listens on the port; tools do not reach it through the proxy.
    pub fn is_own_port(&self, port: u16) -> bool {
        let own = self.own_ports.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        own.contains(&port) || self.server_ports.get().is_some_and(|ports| ports().contains(&port))
    }

    /// Sets how the ports of the yard's other servers are found. The first call counts.
    pub fn set_server_ports(&self, ports: impl Fn() -> Vec<u16> + Send + Sync + 'static) {
        let _ = self.server_ports.set(Box::new(ports));
    }

    /// A port on which this process listens.
    pub fn add_own_port(&self, port: u16) {
        self.own_ports.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(port);
    }

    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Variables that hold secrets: the variable, the secret's name, the value.
    pub fn secret_variables(&self) -> impl Iterator<Item = (&str, String, &OsStr)> {
        self.secrets.iter().filter_map(|(variable, value)| {
            let name = variable.strip_prefix(VARIABLE_PREFIX)?.to_ascii_lowercase();
            Some((variable.as_str(), SecretName::parse(&name)?.as_str().to_owned(), value.as_os_str()))
        })
    }

    /// The executable that `lookup` finds behind a shim, or the shim itself. Cached per shim.
    pub fn resolve_shim(&self, shim: &Path, lookup: impl FnOnce() -> Option<PathBuf>) -> PathBuf {
        let mut shim_targets = self.shim_targets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(target) = shim_targets.get(shim).filter(|target| is_executable(target)) {
            return target.clone();
        }
        let target = lookup().unwrap_or_else(|| shim.to_owned());
        shim_targets.insert(shim.to_owned(), target.clone());
        target
    }

    /// What [`Host::resolve_shim`] found for the path; `None` if it was not asked, or if that program is gone.
    pub fn shim_target(&self, shim: &Path) -> Option<PathBuf> {
        let shim_targets = self.shim_targets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shim_targets.get(shim).filter(|target| is_executable(target)).cloned()
    }

    /// The owner's home folder.
    pub fn home(&self) -> Option<&Path> {
        self.var("HOME").map(Path::new)
    }

    /// The variables that every child gets: `PATH` and a UTF-8 locale.
    pub fn base_env(&self) -> Vec<(OsString, OsString)> {
        self.env_with_first(None)
    }

    /// The same with a folder that comes first on the search path, unless it is there already.
    pub fn env_with_first(&self, folder: Option<&Path>) -> Vec<(OsString, OsString)> {
        let folder = folder.map(Path::to_owned).filter(|folder| !self.search.contains(folder));
        let path = std::env::join_paths(folder.iter().chain(&self.search)).unwrap_or_default();
        vec![("PATH".into(), path), ("LANG".into(), "C.UTF-8".into())]
    }

    /// Finds an executable: a path is relative to `root`, a bare name is looked up in the search path.
    pub fn program(&self, name: &str, root: &Path) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(root.join(name)).filter(|path| is_executable(path));
        }
        let mut found = self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(path) = found.get(name)
            && is_executable(path)
        {
            return Some(path.clone());
        }
        let path = self.search.iter().map(|dir| dir.join(name)).find(|path| is_executable(path))?;
        found.insert(name.to_owned(), path.clone());
        Some(path)
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
