//! Environments of PEP 723 scripts: uv prepares them once, with network; calls run the interpreter offline.

use crate::host::Host;
use crate::interpreter::run_helper;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use toolyard_protocol::{Error, ErrorKind};

/// Downloading large wheels takes a while.
const PREPARE_LIMIT: Duration = Duration::from_secs(600);

/// The environment of one script.
pub struct UvEnvironment {
    host: Arc<Host>,
    root: PathBuf,
    script: String,
    python: Option<String>,
    /// File that caches the interpreter path between processes.
    path_cache: PathBuf,
    interpreter: OnceLock<PathBuf>,
    preparing: tokio::sync::Mutex<()>,
}

impl UvEnvironment {
    pub fn new(
        host: &Arc<Host>,
        (root, state): (&Path, &Path),
        script: &str,
        metadata: &str,
        python: Option<String>,
    ) -> UvEnvironment {
        let mut hasher = blake3::Hasher::new();
        for part in [
            root.as_os_str().as_encoded_bytes(),
            script.as_bytes(),
            metadata.as_bytes(),
            python.as_deref().unwrap_or("").as_bytes(),
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let path_cache = state.join("uv").join(format!("{}.path", &hasher.finalize().to_hex()[..32]));
        UvEnvironment {
            host: host.clone(),
            root: root.to_owned(),
            script: script.to_owned(),
            python,
            path_cache,
            interpreter: OnceLock::new(),
            preparing: tokio::sync::Mutex::new(()),
        }
    }

    /// The interpreter; prepares the environment if needed. The preparation continues if the caller gives up.
    pub async fn ready(self: &Arc<Self>, deadline: Instant) -> Result<PathBuf, Error> {
        if let Some(path) = self.interpreter.get() {
            return Ok(path.clone());
        }
        let preparation = async {
            let _one_at_a_time = self.preparing.lock().await;
            if let Some(path) = self.interpreter.get() {
                return Ok(path.clone());
            }
            let environment = self.clone();
            let prepared = tokio::task::spawn_blocking(move || environment.prepare()).await;
            prepared.unwrap_or_else(|error| Err(error.to_string()))
        };
        let script = &self.script;
        match tokio::time::timeout_at(deadline.into(), preparation).await {
            Ok(Ok(path)) => Ok(path),
            Ok(Err(reason)) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("cannot prepare the environment of {script}: {reason}"),
            )
            .hint("run 'toolyard prepare' to try again; it needs uv and the package index")),
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("the environment of {script} is still being prepared"),
            )
            .hint("try again in a moment, or run 'toolyard prepare' first")),
        }
    }

    fn prepare(&self) -> Result<PathBuf, String> {
        if let Some(path) =
            std::fs::read_to_string(&self.path_cache).ok().map(PathBuf::from).filter(|path| path.is_file())
        {
            return Ok(self.interpreter.get_or_init(|| path).clone());
        }
        let uv = self.host.program("uv", &self.root).ok_or("the program 'uv' is not installed")?;
        let python: Vec<&str> =
            self.python.as_deref().map_or(Vec::new(), |version| vec!["--python", version]);
        let with = |first: &[&'static str]| -> Vec<&str> {
            first.iter().copied().chain([self.script.as_str()]).chain(python.iter().copied()).collect()
        };
        let run = |args: &[&str]| run_helper(&self.host, &uv, args, Some(&self.root), PREPARE_LIMIT);
        run(&with(&["sync", "--quiet", "--script"]))?;
        let found = PathBuf::from(run(&["python", "find", "--script", &self.script])?.trim());
        if !found.is_file() {
            return Err(format!("uv returned {}, which does not exist", found.display()));
        }
        // Only a cache; without it the next process runs uv again.
        if let Some(folder) = self.path_cache.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = std::fs::write(&self.path_cache, found.as_os_str().as_encoded_bytes());
        Ok(self.interpreter.get_or_init(|| found).clone())
    }
}

/// The `# /// script` block of a Python file, if it has one.
pub fn metadata(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != "# /// script").skip(1);
    let mut block = String::new();
    loop {
        let line = lines.next()?;
        if line.trim_end() == "# ///" {
            return Some(block);
        }
        block.push_str(line.strip_prefix('#')?);
        block.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::metadata;

    #[test]
    fn the_metadata_block_is_found_according_to_pep_723() {
        let script = "#!/usr/bin/env python\n# /// script\n# dependencies = [\"x\"]\n#\n# ///\nprint(1)\n";
        assert_eq!(metadata(script).as_deref(), Some(" dependencies = [\"x\"]\n\n"));
        assert_eq!(metadata("print(1)\n"), None);
        assert_eq!(metadata("# /// script\n# never closed\n"), None);
        assert_eq!(metadata("# /// script\ncode()\n# ///\n"), None);
    }
}
