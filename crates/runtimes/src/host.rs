//! What a tool may take from the machine: named environment variables and programs on the search path.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use toolyard_protocol::SecretName;
use toolyard_protocol::secret::VARIABLE_PREFIX;

/// The environment as it was when the program started. Only the binary reads the real one.
pub struct Host {
    env: HashMap<OsString, OsString>,
    /// Variables that hold secrets are kept apart, so that no one passes them on by accident.
    secrets: Vec<(String, OsString)>,
    search: Vec<PathBuf>,
    // A thousand tools of one interpreter look it up once.
    found: Mutex<HashMap<String, PathBuf>>,
    // What stands behind a version manager's shim.
    shim_targets: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl Host {
    pub fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Host {
        let mut env: HashMap<OsString, OsString> = env.into_iter().collect();
        let is_secret = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with(VARIABLE_PREFIX));
        let secrets = env.extract_if(|name, _| is_secret(name));
        let secrets = secrets.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        let default = OsString::from("/usr/local/bin:/usr/bin:/bin");
        let path = env.get(OsStr::new("PATH")).unwrap_or(&default);
        // A relative entry would run whatever lies in the folder we happen to stand in.
        let search = std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
        Host { env, secrets, search, found: Mutex::default(), shim_targets: Mutex::default() }
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

    /// The whole environment but for secrets, for set-up programs that act in the owner's name.
    pub fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.env.iter()
    }

    /// What `lookup` finds behind a shim; the shim itself when it finds nothing. Asked once per shim.
    pub fn resolve_shim(&self, shim: &Path, lookup: impl FnOnce() -> Option<PathBuf>) -> PathBuf {
        let mut shim_targets = self.shim_targets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shim_targets
            .entry(shim.to_owned())
            .or_insert_with(|| lookup().unwrap_or_else(|| shim.to_owned()))
            .clone()
    }

    /// What every child gets, before its own allow-list: where programs are, and UTF-8.
    pub fn base_env(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::join_paths(&self.search).unwrap_or_default();
        vec![("PATH".into(), path), ("LANG".into(), "C.UTF-8".into())]
    }

    /// An executable: a path is taken relative to `root`, a bare name is searched for.
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
