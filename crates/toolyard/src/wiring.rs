//! Puts the parts together: configuration, host, launcher, loader, audit log, engine.

use crate::config::Config;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::audit::{AuditLog, Options};
use toolyard_engine::cache::Cache;
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{self, Jobs, JobsDoor, SteadyClock};
use toolyard_engine::stores::sqlite;
use toolyard_engine::{Candidate, Engine, Registry, Snapshot};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::builtin::{self, Services};
use toolyard_runtimes::child::Launcher;
use toolyard_runtimes::{Host, Loader, Walls};
use toolyard_wire::outcome::Form;
use toolyard_wire::view::View;

/// Which yard is meant and how to print.
pub struct Place {
    pub yard: Option<PathBuf>,
    /// A running server to talk to instead of a yard.
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
    jobs: JobsDoor,
    /// The program's own tools that are turned on.
    pub builtins: Vec<Candidate>,
}

impl Yard {
    /// Opens the yard named on the command line, else the current folder.
    pub fn open(place: &Place) -> Result<Yard, Error> {
        Yard::open_at(place.yard.as_deref().unwrap_or(Path::new(".")))
    }

    pub fn open_at(path: &Path) -> Result<Yard, Error> {
        let root = std::fs::canonicalize(path).map_err(|error| {
            Error::new(
                ErrorKind::FileNotFound,
                format!("the yard {} cannot be opened: {error}", path.display()),
            )
            .hint("'toolyard init DIR' makes one")
        })?;
        if !root.is_dir() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the yard {} is not a folder", path.display()),
            ));
        }
        let env: Vec<_> = std::env::vars_os().collect();
        let config = Arc::new(Config::load(&root, &env)?);
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
        let walls = Walls { level: config.sandbox.level, unconfined: config.sandbox.when_unavailable };
        let loader = Loader::new(root.clone(), state.clone(), host, launcher, limits, walls);
        let registry = Arc::new(Registry::default());
        let jobs = jobs_door(state.clone(), config.jobs.options());
        let builtins = builtins(&config, &registry)?;
        Ok(Yard { root, state, config, loader: Arc::new(loader), registry, jobs, builtins })
    }

    pub fn load(&self) -> Snapshot {
        self.loader.load().after(self.builtins.clone()).into_snapshot()
    }

    /// The jobs of the yard, to look at; nothing is loaded or started.
    pub fn jobs(&self) -> Result<Arc<Jobs>, Error> {
        make_state_dir(&self.state)?;
        open_jobs(&self.state, self.config.jobs.options())
    }

    /// The engine over the loaded tools. From here on the state folder is needed.
    pub fn engine(&self) -> Result<Engine, Error> {
        make_state_dir(&self.state)?;
        let clock = Arc::new(SystemClock);
        let random = Arc::new(SystemRandom);
        let options = Options {
            sync: self.config.audit.sync,
            retention: self.config.audit.retention,
            ..Options::default()
        };
        let audit = AuditLog::open(&self.state, options, clock.clone(), random.clone(), Arc::new(View));
        let audit = audit.map_err(|error| Error::from(&error))?;
        let cache = Cache::open(&self.state, self.config.cache.options(), clock.clone());
        let redactor = self.loader.secrets.clone();
        self.registry.replace(self.load());
        let (registry, jobs) = (self.registry.clone(), self.jobs.clone());
        Ok(Engine { registry, audit, cache, redactor, jobs, clock, random })
    }
}

/// The tools of `[builtin]`, over what they work with.
fn builtins(config: &Arc<Config>, registry: &Arc<Registry>) -> Result<Vec<Candidate>, Error> {
    let services =
        Services { registry: Arc::downgrade(registry), config: config.clone(), clock: Arc::new(SystemClock) };
    builtin::candidates(&services, &config.builtin.on)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a built-in tool: {error}")))
}

fn jobs_door(state: PathBuf, options: jobs::Options) -> JobsDoor {
    JobsDoor::new(move || {
        make_state_dir(&state)?;
        open_jobs(&state, options.clone())
    })
}

fn open_jobs(state: &Path, options: jobs::Options) -> Result<Arc<Jobs>, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let database = sqlite::Database::open(&state.join("yard.sqlite"), Arc::new(sqlite::NoFaults))?;
    let events = sqlite::Events::new(database.clone(), sqlite::RING);
    let parts = jobs::Parts {
        store: Arc::new(sqlite::Jobs::new(database, &events)),
        events: Arc::new(events),
        form: Arc::new(Form),
        clock: Arc::new(SteadyClock::open(state, &clock)),
        options,
    };
    Ok(Jobs::open(state, new_id(clock.as_ref(), &SystemRandom), parts)?)
}

/// The state folder belongs to its owner alone: it holds the audit log.
pub fn make_state_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the state folder {} cannot be made: {error}", dir.display()),
        )
        .hint("make it writable, or set [state] dir in toolyard.toml")
    })
}

/// A runtime for commands that make at most a call or two.
pub fn small_runtime() -> Result<tokio::runtime::Runtime, Error> {
    finish(tokio::runtime::Builder::new_current_thread())
}

/// A runtime that uses every core.
pub fn large_runtime() -> Result<tokio::runtime::Runtime, Error> {
    finish(tokio::runtime::Builder::new_multi_thread())
}

fn finish(mut builder: tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, Error> {
    let built = builder.enable_all().build();
    built.map_err(|error| Error::new(ErrorKind::Internal, format!("the async runtime cannot start: {error}")))
}
