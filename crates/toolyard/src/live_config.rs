//! The configuration of a running server: read again when `toolyard.toml` changes, and applied to its parts.

use crate::config::{self, Applies, Change, Config};
use crate::log;
use crate::reload::print_problems;
use crate::wiring::{Yard, builtins};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use toolyard_engine::jobs::SharedOptions;
use toolyard_engine::{Candidate, Engine, Severity};
use toolyard_protocol::Error;
use toolyard_runtimes::builtin::{ConfigView, Section, Services};
use toolyard_yard::Loader;
use toolyard_yard::resources::OpenResources;
use tracing::{info, warn};

/// The configuration in use; clones share it.
#[derive(Clone)]
pub struct LiveConfig(Arc<Mutex<Arc<Config>>>);

impl LiveConfig {
    pub fn new(config: Arc<Config>) -> LiveConfig {
        LiveConfig(Arc::new(Mutex::new(config)))
    }

    pub fn get(&self) -> Arc<Config> {
        self.lock().clone()
    }

    fn set(&self, config: Config) {
        *self.lock() = Arc::new(config);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Config>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl ConfigView for LiveConfig {
    fn sections(&self) -> Vec<Section> {
        self.get().sections()
    }
}

/// Where the configuration comes from: files, variables and flags.
pub struct ConfigSource {
    pub root: PathBuf,
    pub env: Vec<(OsString, OsString)>,
    /// Applies the command-line flags.
    pub flags: Box<dyn Fn(&mut Config) + Send + Sync>,
}

impl ConfigSource {
    pub fn load(&self) -> Result<Config, Error> {
        let mut config = Config::load(&self.root, &self.env)?;
        (self.flags)(&mut config);
        Ok(config)
    }

    pub fn file(&self) -> PathBuf {
        self.root.join(config::FILE)
    }
}

/// Applies a changed `toolyard.toml` to the parts of a running server.
pub struct ConfigReload {
    source: Arc<ConfigSource>,
    live: LiveConfig,
    /// The yard's file as it was read last, or why it could not be; `None` before the first time.
    content: Option<Result<Vec<u8>, String>>,
    /// Changes that the next load completes.
    report: Vec<Change>,
    parts: Arc<ConfigParts>,
    loader: Arc<Loader>,
    engine: Arc<Engine>,
    /// The built-in tools that are enabled.
    pub builtins: Vec<Candidate>,
}

/// What a configuration reaches besides the loader and the engine.
pub struct ConfigParts {
    pub job_options: SharedOptions,
    pub services: Arc<Services>,
    pub state: PathBuf,
    /// Set when an edge serves them.
    pub resources: OnceLock<OpenResources>,
}

impl ConfigReload {
    pub fn new(yard: &Yard, engine: &Arc<Engine>) -> ConfigReload {
        ConfigReload {
            source: yard.source.clone(),
            live: yard.live_config.clone(),
            content: None,
            report: Vec::new(),
            parts: yard.parts.clone(),
            loader: yard.loader.clone(),
            engine: engine.clone(),
            builtins: yard.builtins.clone(),
        }
    }

    /// Call before each load. A file that cannot be read as a whole changes nothing.
    pub fn read(&mut self) {
        let content = Some(config::read_yard_file(&self.source.root).map_err(|error| error.to_string()));
        if content == self.content {
            return;
        }
        self.content = content;
        if let Err(error) = self.source.load().and_then(|new| self.apply(new)) {
            let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            let text = format!("{}{hint}; the configuration in use is kept", error.message);
            log::problem(Severity::Error, &text);
        }
    }

    /// Call after each load: changes are in force now.
    pub fn report(&mut self) {
        for Change { section, key, applies } in self.report.drain(..) {
            match applies {
                Applies::Now => {
                    info!(target: "toolyard", "toolyard.toml: [{section}] {key} changed; applied")
                }
                Applies::AtStart => {
                    warn!(target: "toolyard", "toolyard.toml: [{section}] {key} changed; restart to apply")
                }
            }
        }
    }

    fn apply(&mut self, new: Config) -> Result<(), Error> {
        let running = self.live.get();
        let changes = running.changes(&new);
        let new = new.applied_over(&running);
        let has_changed = |section, key: Option<&str>| {
            changes.iter().any(|change| change.section == section && key.is_none_or(|key| change.key == key))
        };
        if has_changed("builtin", None) {
            self.builtins = builtins(&new, &self.parts.services)?;
        }
        self.loader.set_settings(new.load_settings());
        self.engine.call_limit.set_max_calls(new.limits.max_calls());
        self.engine.cache.set_options(new.cache.options());
        self.parts.job_options.replace(new.jobs.options());
        let affects_resources = ["resources", "builtin"].iter().any(|section| has_changed(section, None));
        if affects_resources || has_changed("limits", Some("resource")) {
            let setup = new.resource_setup(&self.source.root, &self.parts.state);
            let opened = self.parts.resources.get();
            let problems = opened.map(|opened| opened.update(&setup, &new.builtin.on));
            print_problems(&problems.unwrap_or_default());
        }
        self.live.set(new);
        self.report.extend(changes);
        Ok(())
    }
}
