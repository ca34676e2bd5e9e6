//! Shared test fixtures: a yard in a temporary folder, and a loader for it.

use crate::tools::{Defaults, Loader, SandboxPolicy};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolyard_protocol::Limits;
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;

/// A temporary folder, removed on drop.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("toolyard-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder { path: std::fs::canonicalize(path).unwrap() }
    }

    /// Writes a file in place, creating its folders.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn remove(&self, name: &str) {
        let path = self.path.join(name);
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }

    pub fn loader(&self) -> Loader {
        let limits = Limits { timeout: Duration::from_secs(5), input: 65536, output: 65536 };
        // Shared by all tests, because probing the machine is slow.
        static LAUNCHER: OnceLock<Arc<Launcher>> = OnceLock::new();
        let launcher =
            LAUNCHER.get_or_init(|| Arc::new(Launcher::new(&std::env::temp_dir()).unwrap())).clone();
        let host = Arc::new(Host::new([("PATH".into(), "/usr/bin:/bin".into())]));
        Loader::new(
            self.path.clone(),
            self.path.join(".toolyard"),
            host,
            launcher,
            Defaults { pack: limits, manifest: limits },
            SandboxPolicy::default(),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The text of a tool that prints `answer`.
pub fn echo(id: &str, answer: &str) -> String {
    format!("id: {id}\nkind: cli\nentry: [echo, '\"{answer}\"']\n")
}
