//! Builds a yard from its parts: configuration, host, launcher, loader, audit log, engine.

use crate::config::Config;
use crate::reload;
use crate::state::StateDir;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_edges::{self as edges, Mcp, McpOptions};
use toolyard_engine::clock::{Random, SystemClock, SystemRandom};
use toolyard_engine::jobs::{Jobs, LazyJobs};
use toolyard_engine::{CallLimit, Candidate, Engine, Registry, Snapshot};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::Host;
use toolyard_runtimes::builtin::{self, Services, YardFiles};
use toolyard_sandbox::Launcher;
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::sqlite::open_cache;
use toolyard_yard::{Loader, PromptIndex, PromptService, SandboxPolicy, resources};

/// Options of every command: the yard or the server, and the output format.
pub struct GlobalOptions {
    pub yard: Option<PathBuf>,
    /// Address of a running server to use instead of a yard.
    pub url: Option<String>,
    pub json: bool,
}

/// A yard with its configuration, ready to load.
pub struct Yard {
    pub root: PathBuf,
    pub state: PathBuf,
    pub config: Arc<Config>,
    pub loader: Arc<Loader>,
    /// Filled by [`Yard::engine`].
    registry: Arc<Registry>,
    jobs: LazyJobs,
    pub state_dir: Arc<StateDir>,
    /// Built-in tools that are enabled.
    pub builtins: Vec<Candidate>,
    pub prompts: Arc<PromptIndex>,
    /// Dependencies of the built-in tools and resources.
    services: Arc<Services>,
}

impl Yard {
    /// Opens the yard named on the command line, else the current folder.
    pub fn open(global: &GlobalOptions) -> Result<Yard, Error> {
        Yard::open_with(global, |_| {})
    }

    /// Like [`Yard::open`]; `change` applies command-line flags to the configuration.
    pub fn open_with(global: &GlobalOptions, change: impl FnOnce(&mut Config)) -> Result<Yard, Error> {
        let path = global.yard.as_deref().unwrap_or(Path::new("."));
        let root = std::fs::canonicalize(path).map_err(|error| {
            Error::new(
                ErrorKind::FileNotFound,
                format!("the yard {} cannot be opened: {error}", path.display()),
            )
            .hint("create one with 'toolyard init DIR'")
        })?;
        if !root.is_dir() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the yard {} is not a folder", path.display()),
            ));
        }
        let env: Vec<_> = std::env::vars_os().collect();
        let mut config = Config::load(&root, &env)?;
        change(&mut config);
        let config = Arc::new(config);
        let state = config.state_dir(&root);
        let launcher = Launcher::new(&state).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the launcher for child processes cannot be prepared: {error}"),
            )
            .hint("make the state folder writable and executable, or set [state] dir in toolyard.toml")
        })?;
        let (host, launcher) = (Arc::new(Host::new(env)), Arc::new(launcher));
        let limits = config.limits.defaults();
        let sandbox_policy =
            SandboxPolicy { level: config.sandbox.level, when_unavailable: config.sandbox.when_unavailable };
        let loader = Loader::new(root.clone(), state.clone(), host, launcher, limits, sandbox_policy);
        let registry = Arc::new(Registry::default());
        let state_dir = StateDir::new(state.clone());
        let jobs = state_dir.lazy_jobs(config.jobs.options());
        let services = Services {
            registry: Arc::downgrade(&registry),
            config: config.clone(),
            jobs: jobs.clone(),
            stores: state_dir.lazy_stores(),
            files: YardFiles::new(root.clone(), state.clone()),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        };
        let services = Arc::new(services);
        let builtins = builtins(&config, &services)?;
        let (loader, prompts) = (Arc::new(loader), Arc::default());
        Ok(Yard { root, state, config, loader, registry, jobs, state_dir, builtins, prompts, services })
    }

    pub fn load(&self) -> Snapshot {
        let loaded = self.loader.load();
        self.prompts.update(loaded.packs.clone());
        loaded.prepend(self.builtins.clone()).into_snapshot()
    }

    /// The jobs of the yard, without loading a tool or running a job.
    pub fn jobs(&self) -> Result<Arc<Jobs>, Error> {
        self.jobs.get().cloned()
    }

    /// Loads the tools and builds the engine; creates the state folder.
    pub fn engine(&self) -> Result<Engine, Error> {
        make_state_dir(&self.state)?;
        let clock = Arc::new(SystemClock);
        let random = Arc::new(SystemRandom);
        let options = Options {
            sync: self.config.audit.sync,
            retention: self.config.audit.retention,
            ..Options::default()
        };
        let audit = FileAuditLog::open(&self.state, options, clock.clone(), random.clone(), Arc::new(View));
        let audit = audit.map_err(|error| Error::from(&error))?;
        let cache = open_cache(&self.state, self.config.cache.options(), clock.clone());
        let redactor = self.loader.secrets.clone();
        self.registry.replace(self.load());
        let (registry, jobs) = (self.registry.clone(), self.jobs.clone());
        let call_limit = CallLimit::new(self.config.limits.max_calls());
        let rate_limits = self.state_dir.lazy_rate_limits();
        Ok(Engine { registry, rate_limits, call_limit, audit, cache, redactor, jobs, clock, random })
    }

    /// Sources and limits of the resources.
    pub fn resource_setup(&self) -> resources::Setup {
        resources::Setup {
            yard: self.root.clone(),
            state: self.state.clone(),
            roots: self.config.resources.roots.clone(),
            max_bytes: self.config.limits.resource(),
        }
    }

    pub fn resources(&self, engine: &Arc<Engine>) -> Result<resources::OpenResources, Error> {
        self.resource_setup().open(engine.clone(), &self.services, &self.config.builtin.on)
    }

    /// The MCP service over the engine.
    pub fn mcp(&self, engine: &Arc<Engine>) -> Result<Arc<Mcp>, Error> {
        let key = key(&self.state.join("mcp.key"), engine.random.as_ref())?;
        let opened = self.resources(engine)?;
        reload::print_problems(&opened.problems);
        opened.reload_on_change(reload::print_problems);
        let services = edges::Services {
            prompts: Arc::new(PromptService::new(self.prompts.clone(), engine.clone())),
            resources: opened.resources,
            tasks: Arc::new(self.jobs.clone()),
        };
        let server = &self.config.server;
        let options = McpOptions {
            max_sessions: server.max_sessions,
            session_idle: server.session_idle,
            max_queued: server.max_queued,
            max_queued_bytes: server.max_queued_bytes,
            ..McpOptions::new(key)
        };
        Ok(Mcp::new(engine.clone(), services, options))
    }
}

/// Reads the key file or creates it; it persists, so that sealed state can be opened after a restart.
fn key(file: &Path, random: &dyn Random) -> Result<[u8; 32], Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |error: std::io::Error| {
        let message = format!("the key file {} cannot be read or written: {error}", file.display());
        Error::new(ErrorKind::Unavailable, message).hint("make the state folder writable")
    };
    if !file.exists() {
        let mut fresh = [0; 32];
        random.fill(&mut fresh);
        // Written to a temporary file, then linked: of several concurrent processes, one creates the key.
        let temporary = file.with_extension(std::process::id().to_string());
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        opened.and_then(|mut file| file.write_all(&fresh)).map_err(failed)?;
        let linked = std::fs::hard_link(&temporary, file);
        std::fs::remove_file(&temporary).map_err(failed)?;
        if let Err(error) = linked
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
    }
    let bytes = std::fs::read(file).map_err(failed)?;
    bytes.try_into().map_err(|_| {
        let message = format!("{} does not contain a 32-byte key", file.display());
        Error::new(ErrorKind::Unavailable, message).hint("remove the file; a new one is created")
    })
}

/// The built-in tools enabled in `[builtin]`.
fn builtins(config: &Arc<Config>, services: &Arc<Services>) -> Result<Vec<Candidate>, Error> {
    builtin::candidates(services, &config.builtin.on)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a built-in tool is invalid: {error}")))
}

/// Creates the state folder, accessible to its owner only: it holds the audit log.
pub fn make_state_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the state folder {} cannot be created: {error}", dir.display()),
        )
        .hint("make it writable, or set [state] dir in toolyard.toml")
    })
}

/// A single-threaded runtime for commands that make few calls.
pub fn small_runtime() -> Result<tokio::runtime::Runtime, Error> {
    finish(tokio::runtime::Builder::new_current_thread())
}

/// A multi-threaded runtime that uses every core.
pub fn large_runtime() -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.on_thread_park(crate::memory::on_worker_park);
    finish(builder)
}

fn finish(mut builder: tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, Error> {
    let built = builder.enable_all().build();
    built.map_err(|error| Error::new(ErrorKind::Internal, format!("the async runtime cannot start: {error}")))
}
