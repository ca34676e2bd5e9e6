//! Environments of PEP 723 scripts: uv prepares them once; calls run the interpreter offline.
//!
//! Preparing is a run like any other: in a sandbox, with limits and without the owner's environment. Each
//! environment has a folder of its own below the state folder, which holds everything that uv writes.

use crate::grants::Places;
use crate::host::Host;
use crate::installation;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_sandbox::{Command, Confinement, Exchange, Grant, Launcher, Network, SandboxLevel};

/// Downloading large wheels takes a while.
const PREPARE_LIMIT: Duration = Duration::from_secs(600);
const MAX_OUTPUT: usize = 1 << 20;
/// The folder below the state folder.
const FOLDER: &str = "uv";
/// In the folder of an environment: the interpreter's path, or why it could not be prepared.
const INTERPRETER: &str = "interpreter";
const FAILED: &str = "failed";

/// What an environment is prepared from.
#[derive(Clone, Debug)]
pub struct UvInputs {
    /// Relative to the yard.
    pub script: String,
    /// The script's `# /// script` block.
    pub metadata: String,
    pub python: Option<String>,
    /// Packages may be built, which runs their code.
    pub build: bool,
    pub network: bool,
}

/// The environment of one script.
pub struct UvEnvironment {
    pub host: Arc<Host>,
    pub launcher: Arc<Launcher>,
    pub places: Arc<Places>,
    inputs: UvInputs,
    /// The machine's Python, which uv may use.
    python: Option<PathBuf>,
    level: SandboxLevel,
    folder: PathBuf,
    interpreter: OnceLock<PathBuf>,
    preparing: tokio::sync::Mutex<()>,
}

impl UvEnvironment {
    pub fn new(
        (host, launcher, places): (&Arc<Host>, &Arc<Launcher>, &Arc<Places>),
        inputs: UvInputs,
        python: Option<PathBuf>,
        level: SandboxLevel,
    ) -> UvEnvironment {
        let mut hasher = blake3::Hasher::new();
        for part in [
            places.root.as_os_str().as_encoded_bytes(),
            inputs.script.as_bytes(),
            inputs.metadata.as_bytes(),
            inputs.python.as_deref().unwrap_or("").as_bytes(),
            &[u8::from(inputs.build), u8::from(inputs.network)],
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let folder = places.state.join(FOLDER).join(&hasher.finalize().to_hex()[..32]);
        UvEnvironment {
            host: host.clone(),
            launcher: launcher.clone(),
            places: places.clone(),
            inputs,
            python,
            level,
            folder,
            interpreter: OnceLock::new(),
            preparing: tokio::sync::Mutex::new(()),
        }
    }

    /// Holds everything of the environment, and nothing of another.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The interpreter; prepares the environment if needed. The preparation continues if the caller gives up.
    pub async fn ready(self: &Arc<Self>, deadline: Instant) -> Result<PathBuf, Error> {
        if let Some(path) = self.interpreter.get() {
            return Ok(path.clone());
        }
        let environment = self.clone();
        let preparation = tokio::spawn(async move {
            let _one_at_a_time = environment.preparing.lock().await;
            match environment.interpreter.get() {
                Some(path) => Ok(path.clone()),
                None => environment.prepare().await,
            }
        });
        let script = &self.inputs.script;
        let unavailable = |message: String| Error::new(ErrorKind::Unavailable, message);
        match tokio::time::timeout_at(deadline.into(), preparation).await {
            Ok(Ok(Ok(path))) => Ok(path),
            Ok(Ok(Err(reason))) => {
                Err(unavailable(format!("cannot prepare the environment of {script}: {reason}"))
                    .hint("run 'toolyard prepare' to try again; it needs uv and the package index"))
            }
            Ok(Err(error)) => {
                Err(unavailable(format!("cannot prepare the environment of {script}: {error}")))
            }
            Err(_) => Err(unavailable(format!("the environment of {script} is still being prepared"))
                .hint("try again in a moment, or run 'toolyard prepare' first")),
        }
    }

    async fn prepare(&self) -> Result<PathBuf, String> {
        if let Some(path) = self.prepared() {
            return Ok(self.interpreter.get_or_init(|| path).clone());
        }
        let uv = self.host.program("uv", &self.places.root).ok_or("the program 'uv' is not installed")?;
        if self.places.is_inside_yard(&uv) {
            return Err(format!("the search path leads to {}, which is part of the yard", uv.display()));
        }
        let stamp = stamp(&uv);
        if let Some(reason) = self.failure(&stamp) {
            return Err(format!(
                "{reason} (not tried again until its dependencies, its Python or uv change)"
            ));
        }
        match self.run_uv(&uv).await {
            Ok(found) => {
                // Only a cache; without it the next process runs uv again.
                let _ = std::fs::write(self.folder.join(INTERPRETER), found.as_os_str().as_encoded_bytes());
                Ok(self.interpreter.get_or_init(|| found).clone())
            }
            Err(reason) => {
                let _ = std::fs::write(self.folder.join(FAILED), format!("{stamp}\n{reason}"));
                Err(reason)
            }
        }
    }

    /// The interpreter that an earlier process prepared.
    fn prepared(&self) -> Option<PathBuf> {
        let path = std::fs::read_to_string(self.folder.join(INTERPRETER)).ok().map(PathBuf::from)?;
        (path.starts_with(&self.folder) && path.is_file()).then_some(path)
    }

    /// Why the same preparation failed before.
    fn failure(&self, stamp: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join(FAILED)).ok()?;
        let (known, reason) = text.split_once('\n')?;
        (known == stamp).then(|| reason.to_owned())
    }

    async fn run_uv(&self, uv: &Path) -> Result<PathBuf, String> {
        let work = self.folder.join("work");
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&work);
        created.map_err(|error| format!("{} cannot be created: {error}", work.display()))?;
        let UvInputs { script, python, build, network, .. } = &self.inputs;
        let mut sync = vec!["sync", "--quiet", "--script", script];
        sync.extend(python.iter().flat_map(|version| ["--python", version]));
        sync.extend((!build).then_some("--no-build"));
        sync.extend((!network).then_some("--offline"));
        self.uv(uv, &work, &sync).await?;
        let found = self.uv(uv, &work, &["python", "find", "--script", script]).await?;
        let found = PathBuf::from(found.trim());
        match found.starts_with(&work) && found.is_file() {
            true => Ok(found),
            false => Err(format!("uv returned {}, which is not in {}", found.display(), work.display())),
        }
    }

    /// Runs uv, whose only writable folder is `work`.
    async fn uv(&self, uv: &Path, work: &Path, arguments: &[&str]) -> Result<String, String> {
        let confinement = self.confinement(uv, work)?;
        let argv = std::iter::once(uv.into()).chain(arguments.iter().map(OsString::from)).collect();
        let command = Command {
            program: uv.to_owned(),
            argv,
            env: self.env(work),
            cwd: self.places.root.clone(),
            confinement,
        };
        let deadline = Instant::now() + PREPARE_LIMIT;
        let exchange =
            Exchange { stdin: bytes::Bytes::new(), output_cap: MAX_OUTPUT, deadline, on_listener: None };
        let finished = self.launcher.run(&command, exchange).await.map_err(|error| error.to_string())?;
        if finished.exit.is_success() {
            return String::from_utf8(finished.stdout.into()).map_err(|_| "uv printed no UTF-8".to_owned());
        }
        let lines: Vec<&str> = finished.stderr_tail.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(4)..].join(" / ");
        let is_about_building = !self.inputs.build && last.to_lowercase().contains("build");
        let hint = match is_about_building {
            true => {
                "; packages without a wheel are built only with \"prepare\": {\"build\": true} in the tool's file"
            }
            false => "",
        };
        Err(format!("uv failed ({}): {last}{hint}", finished.exit))
    }

    fn confinement(&self, uv: &Path, work: &Path) -> Result<Confinement, String> {
        let limits = Confinement {
            memory: Some(4 << 30),
            cpu: Some(PREPARE_LIMIT),
            processes: Some(512),
            files: Some(4096),
            file_size: Some(4 << 30),
            tmp_bytes: 1 << 30,
            // uv sets the modes of what it installs. Only building runs code of packages.
            metadata: !self.inputs.build,
            ..Confinement::at(self.level)
        };
        if self.level == SandboxLevel::None {
            return Ok(limits);
        }
        let mut read = installation::parts(uv, None, &self.places);
        read.extend(self.python.iter().flat_map(|python| installation::parts(python, None, &self.places)));
        read.push(self.places.root.clone());
        let grant = Grant::open(work, true).map_err(|error| format!("{}: {error}", work.display()))?;
        let network = if self.inputs.network { Network::Allow } else { Network::Deny };
        Ok(Confinement {
            read,
            grants: vec![grant],
            hidden: self.places.hidden_from(std::iter::empty()),
            network,
            ..limits
        })
    }

    fn env(&self, work: &Path) -> Vec<(OsString, OsString)> {
        let mut env = self.host.base_env();
        if let Some(folder) = self.python.as_deref().and_then(Path::parent) {
            for (_, path) in env.iter_mut().filter(|(name, _)| name == "PATH") {
                let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&*path));
                *path = std::env::join_paths(folders.collect::<Vec<_>>()).unwrap_or_default();
            }
        }
        for (name, folder) in
            [("HOME", "home"), ("UV_CACHE_DIR", "cache"), ("UV_PYTHON_INSTALL_DIR", "python")]
        {
            env.push((name.into(), work.join(folder).into()));
        }
        // Configuration files of the yard or of its owner are not for uv; certificates are the system's.
        env.extend(
            [("UV_NO_CONFIG", "1"), ("UV_NATIVE_TLS", "1"), ("TMPDIR", "/tmp")]
                .map(|(name, value)| (name.into(), value.into())),
        );
        env
    }
}

/// Lets every preparation that failed be tried again.
pub fn forget_failures(state: &Path) {
    for entry in std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(entry.path().join(FAILED));
    }
}

/// Changes when another uv is installed.
fn stamp(uv: &Path) -> String {
    let meta = std::fs::metadata(uv);
    let stamp = meta.map(|meta| format!("{} {} {}", meta.ino(), meta.size(), meta.mtime()));
    format!("{} {}", uv.display(), stamp.unwrap_or_default())
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
