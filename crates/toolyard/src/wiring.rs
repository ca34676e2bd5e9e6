//! Builds a yard from its parts: configuration, host, launcher, loader, audit log, engine.

use crate::commands::list::all_specs;
use crate::config::{Config, unknown_variables};
use crate::find_yard;
use crate::live_config::{ConfigParts, ConfigSource, LiveConfig};
use crate::log;
use crate::private_file;
use crate::reload;
use crate::servers;
use crate::state::StateDir;
use crate::state_folder::{self, Found};
use reqwest::Url;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use toolyard_edges::{self as edges, Mcp, McpOptions};
use toolyard_engine::clock::{Random, SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs, SharedOptions};
use toolyard_engine::{CallLimit, Candidate, Engine, Registry, Severity, Snapshot};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::secret::VARIABLE_PREFIX;
use toolyard_protocol::{Error, ErrorKind, ToolSpec};
use toolyard_runtimes::Host;
use toolyard_runtimes::builtin::{self, Group, Services, YardFiles};
use toolyard_runtimes::secrets::Secrets;
use toolyard_sandbox::{self as sandbox, Launcher, Weakness};
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::sqlite::open_cache;
use toolyard_yard::{LoadSettings, Loader, PromptIndex, PromptService, resources};

/// Options of every command: the yard or the server, and the output format.
pub struct GlobalOptions {
    /// The yard that was named; without one, the yard that holds the current folder.
    pub yard: Option<PathBuf>,
    /// Address of a running server to use instead of a yard.
    pub url: Option<Url>,
    pub json: bool,
}

impl GlobalOptions {
    /// The option that names the same yard, for a command that the user can run next.
    pub fn yard_option(&self) -> String {
        self.yard.as_ref().map_or(String::new(), |yard| format!(" --yard {}", yard.display()))
    }

    /// The folder of the yard.
    pub fn root(&self) -> Result<PathBuf, Error> {
        let Some(path) = &self.yard else {
            let here = std::env::current_dir().map_err(|error| {
                Error::new(ErrorKind::Unavailable, format!("the current folder cannot be found: {error}"))
            })?;
            let home = std::env::home_dir();
            let found = find_yard::find(&here, home.as_deref())?;
            refuse_yard_of_tools(&found, home.as_deref())?;
            return Ok(found);
        };
        let root = std::fs::canonicalize(path).map_err(|error| {
            let message = format!("the yard {} cannot be opened: {error}", path.display());
            Error::new(ErrorKind::ResourceNotFound, message).hint("create one with 'toolyard init DIR'")
        })?;
        if !root.is_dir() {
            let message = format!("the yard {} is not a folder", path.display());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(root)
    }
}

/// A yard with its configuration, ready to load.
pub struct Yard {
    pub root: PathBuf,
    pub state: PathBuf,
    /// The configuration at the start.
    pub config: Arc<Config>,
    pub live_config: LiveConfig,
    pub source: Arc<ConfigSource>,
    /// What a changed configuration reaches.
    pub parts: Arc<ConfigParts>,
    pub loader: Arc<Loader>,
    /// Filled by [`Yard::engine`].
    registry: Arc<Registry>,
    jobs: LazyJobs,
    pub state_dir: Arc<StateDir>,
    /// Built-in tools that are enabled.
    pub builtins: Vec<Candidate>,
    pub prompts: Arc<PromptIndex>,
    purpose: Purpose,
    /// The state folder is the yard's own; otherwise there is none, or it must not be read.
    has_state: bool,
    /// Why the state folder is not used.
    pub state_problem: Option<Error>,
}

/// What a yard is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Run,
    /// To look at its state too.
    Look,
    /// To look at its files; the state is read only if it is the yard's own.
    LookAtFiles,
}

impl Yard {
    /// Opens the yard to run something in it.
    pub fn open(global: &GlobalOptions) -> Result<Yard, Error> {
        Yard::open_with(global, |_| {})
    }

    /// Like [`Yard::open`]; `change` applies command-line flags to the configuration.
    pub fn open_with(
        global: &GlobalOptions,
        change: impl Fn(&mut Config) + Send + Sync + 'static,
    ) -> Result<Yard, Error> {
        Yard::of(global.root()?, Purpose::Run, change)
    }

    /// Opens the yard to look at it and its state: nothing runs, and no state is created.
    pub fn look(global: &GlobalOptions) -> Result<Yard, Error> {
        Yard::of(global.root()?, Purpose::Look, |_| {})
    }

    /// Opens the yard to look at its files. A state folder that is not its own is left alone, with a warning.
    pub fn look_at_files(global: &GlobalOptions) -> Result<Yard, Error> {
        let yard = Yard::look_at_files_of(global.root()?)?;
        if let Some(Error { message, hint, .. }) = &yard.state_problem {
            let hint = hint.as_deref().unwrap_or_default();
            log::problem(Severity::Warning, &format!("{message}; it is not used ({hint})"));
        }
        Ok(yard)
    }

    /// Like [`Yard::look_at_files`], for any folder and without the warning.
    pub fn look_at_files_of(root: PathBuf) -> Result<Yard, Error> {
        Yard::of(root, Purpose::LookAtFiles, |_| {})
    }

    fn of(
        root: PathBuf,
        purpose: Purpose,
        change: impl Fn(&mut Config) + Send + Sync + 'static,
    ) -> Result<Yard, Error> {
        let env: Vec<_> = std::env::vars_os().collect();
        // Without the secrets, which are not configuration.
        let variables =
            env.iter().filter(|(name, _)| !name.as_encoded_bytes().starts_with(VARIABLE_PREFIX.as_bytes()));
        let source =
            ConfigSource { root: root.clone(), env: variables.cloned().collect(), flags: Box::new(change) };
        let config = Arc::new(source.load()?);
        for warning in unknown_variables(&env) {
            log::problem(Severity::Warning, &warning);
        }
        let state = config.state_dir(&root);
        let (has_state, state_problem) = match open_state(&root, &state, purpose) {
            Ok(found) => (found == Found::Own, None),
            Err(error) if purpose == Purpose::LookAtFiles => (false, Some(error)),
            Err(error) => return Err(error),
        };
        let (host, launcher) = (Host::new(env), Arc::new(launcher(&state, has_state, &config)?));
        if has_state {
            let state = state.clone();
            host.set_server_ports(move || servers::live(&state).iter().map(SocketAddr::port).collect());
        }
        let host = Arc::new(host);
        let settings = config.load_settings();
        let LoadSettings { defaults, sandbox_policy, .. } = settings;
        let mut loader = Loader::new(root.clone(), state.clone(), host, launcher, defaults, sandbox_policy);
        if state_problem.is_some() {
            loader.secrets = Arc::new(Secrets::of_environment(&loader.host));
        }
        loader.set_settings(settings);
        let registry = Arc::new(Registry::default());
        let state_dir = StateDir::new(state.clone());
        let job_options = SharedOptions::from(config.jobs.options());
        let jobs = state_dir.lazy_jobs(job_options.clone());
        let live_config = LiveConfig::new(config.clone());
        let services = Services {
            registry: Arc::downgrade(&registry),
            config: Arc::new(live_config.clone()),
            jobs: jobs.clone(),
            stores: state_dir.lazy_stores(),
            files: YardFiles::new(root.clone(), state.clone()),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        };
        let services = Arc::new(services);
        let builtins = builtins(&config, &services)?;
        let (loader, prompts, source) = (Arc::new(loader), Arc::default(), Arc::new(source));
        let resources = OnceLock::new();
        let parts = Arc::new(ConfigParts { job_options, services, state: state.clone(), resources });
        Ok(Yard {
            root,
            state,
            config,
            live_config,
            source,
            parts,
            loader,
            registry,
            jobs,
            state_dir,
            builtins,
            prompts,
            purpose,
            has_state,
            state_problem,
        })
    }

    /// Says if tools get less than the full sandbox, and why.
    pub fn sandbox_warning(&self) -> Option<String> {
        let (launcher, policy) = (&self.loader.launcher, self.config.load_settings().sandbox_policy);
        let weakness = policy.weakness(launcher)?;
        let level = launcher.sandbox_level().min(policy.level);
        let then =
            if level < policy.require { "tools that need one are refused" } else { "tools run with less" };
        let Weakness { what, remedy } = weakness;
        Some(format!(
            "the sandbox is {level}, not full, and {then}: {what} ({remedy}; see 'toolyard doctor')"
        ))
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

    /// Loads the tools and builds the engine. In a yard that was opened to look, nothing will run in it.
    pub fn engine(&self) -> Result<Engine, Error> {
        let clock = Arc::new(SystemClock);
        let random = Arc::new(SystemRandom);
        let options = Options {
            sync: self.config.audit.sync,
            retention: self.config.audit.retention,
            ..Options::default()
        };
        let audit = FileAuditLog::open(&self.state, options, clock.clone(), random.clone(), Arc::new(View));
        let audit = audit.map_err(|error| Error::from(&error))?;
        // Without state the cache is not created either: a folder that does not exist has none.
        let folder = if self.has_state { self.state.clone() } else { self.state.join("none") };
        let cache = open_cache(&folder, self.config.cache.options(), clock.clone());
        let redactor = self.loader.secrets.clone();
        self.registry.replace(self.load());
        let (registry, jobs) = (self.registry.clone(), self.jobs.clone());
        let call_limit = CallLimit::new(self.config.limits.max_calls());
        let rate_limits = self.state_dir.lazy_rate_limits();
        Ok(Engine { registry, rate_limits, call_limit, audit, cache, redactor, jobs, clock, random })
    }

    /// Sources and limits of the resources.
    pub fn resource_setup(&self) -> resources::Setup {
        self.config.resource_setup(&self.root, &self.state)
    }

    pub fn resources(&self, engine: &Arc<Engine>) -> Result<resources::OpenResources, Error> {
        let mut on = self.config.builtin.on.clone();
        if self.purpose == Purpose::Look && !self.state_dir.exists() {
            // Nothing is stored, and opening the stores would create them.
            on.set(Group::Artifacts, false);
            on.set(Group::Jobs, false);
        }
        self.resource_setup().open(engine.clone(), &self.parts.services, &on)
    }

    /// The MCP service over the engine.
    pub fn mcp(&self, engine: &Arc<Engine>) -> Result<Arc<Mcp>, Error> {
        let key = key(&self.state.join("mcp.key"), engine.random.as_ref())?;
        let opened = self.resources(engine)?;
        reload::print_problems(&opened.problems);
        opened.reload_on_change(reload::print_problems);
        let services = edges::Services {
            prompts: Arc::new(PromptService::new(self.prompts.clone(), engine.clone())),
            resources: opened.resources.clone(),
            tasks: Arc::new(self.jobs.clone()),
        };
        // Set once: a yard is served by one edge.
        let _ = self.parts.resources.set(opened);
        let server = &self.config.server;
        let options = McpOptions {
            max_sessions: server.max_sessions,
            session_idle: server.session_idle,
            max_queued: server.max_queued,
            max_queued_bytes: server.max_queued_bytes,
            max_buffered_bytes: server.max_buffered_bytes - server.max_output_bytes(),
            ..McpOptions::new(key)
        };
        Ok(Mcp::new(engine.clone(), services, options))
    }
}

/// Reads the key file or creates it; it persists, so that sealed state can be opened after a restart.
fn key(file: &Path, random: &dyn Random) -> Result<[u8; 32], Error> {
    let fresh = || {
        let mut fresh = vec![0; 32];
        random.fill(&mut fresh);
        fresh
    };
    private_file::read_or_create(file, fresh)?.try_into().map_err(|_| {
        let message = format!("{} does not contain a 32-byte key", file.display());
        Error::new(ErrorKind::Unavailable, message).hint("remove the file; a new one is created")
    })
}

/// Checks whose state it is; creates it if something will run.
fn open_state(root: &Path, state: &Path, purpose: Purpose) -> Result<Found, Error> {
    if purpose == Purpose::Run {
        return state_folder::create(root, state).map(|()| Found::Own);
    }
    state_folder::check(root, state).map_err(|refusal| refusal.error(state))
}

/// Where memory cannot be executed, the launcher is a file. To look, it is needed only while it is probed.
fn launcher(state: &Path, has_state: bool, config: &Config) -> Result<Launcher, Error> {
    let failed = |error| {
        let message = format!("the launcher for child processes cannot be prepared: {error}");
        Error::new(ErrorKind::Unavailable, message)
            .hint("make the state folder writable and executable, or set [state] dir in toolyard.toml")
    };
    let output_memory = config.server.max_output_bytes();
    let options = sandbox::Options { output_memory, ..Default::default() };
    if has_state {
        return Launcher::with_options(state, options).map_err(failed);
    }
    // The name cannot be guessed, so that nobody else can have created the folder.
    let scratch = std::env::temp_dir().join(format!("toolyard-{}", new_id(&SystemClock, &SystemRandom)));
    let launcher = Launcher::with_options(&scratch, options);
    let _ = std::fs::remove_dir_all(&scratch);
    launcher.map_err(failed)
}

/// The built-in tools enabled in `[builtin]`.
pub fn builtins(config: &Config, services: &Arc<Services>) -> Result<Vec<Candidate>, Error> {
    builtin::candidates(services, &config.builtin.on)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a built-in tool is invalid: {error}")))
}

/// A yard that was found by its content, and not named, must not be one that a tool can have made.
fn refuse_yard_of_tools(found: &Path, home: Option<&Path>) -> Result<(), Error> {
    for outer in find_yard::above(found, home) {
        let Ok(yard) = Yard::look_at_files_of(outer.to_owned()) else { continue };
        let snapshot = yard.load();
        let can_write = |spec: &ToolSpec| {
            let files = &spec.permissions.files;
            files.iter().any(|grant| grant.writable && found.starts_with(&grant.path))
        };
        if let Some((spec, _)) = all_specs(&snapshot).into_iter().find(|(spec, _)| can_write(spec)) {
            let message = format!(
                "the yard {} lies where the tool '{}' of the yard {} can write",
                found.display(),
                spec.exposed,
                outer.display()
            );
            let hint = "if it is yours, name it with --yard DIR";
            return Err(Error::new(ErrorKind::Forbidden, message).hint(hint));
        }
    }
    Ok(())
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
