//! Configuration: raw documents in layers, checked section by section. Unknown keys are refused.

mod audit;
mod auth;
mod builtin;
mod cache;
mod changes;
mod environment;
mod jobs;
mod limits;
mod prepare;
mod replaced;
mod resources;
mod sandbox;
mod server;
mod state;
mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toolyard_formats::doc::{self, DocumentFormat, Fields, Node, Problem};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::beneath::{self, LinkPolicy, ReadError};
use toolyard_yard::resources::Setup;
use toolyard_yard::{LoadSettings, SandboxPolicy};

/// Everything that can be configured, with defaults in place.
#[derive(Default)]
pub struct Config {
    pub server: server::Server,
    pub auth: auth::Auth,
    pub limits: limits::Limits,
    pub audit: audit::Audit,
    pub cache: cache::Cache,
    pub jobs: jobs::Jobs,
    pub sandbox: sandbox::Sandbox,
    pub prepare: prepare::Prepare,
    pub state: state::State,
    pub builtin: builtin::Builtin,
    pub resources: resources::Resources,
}

impl Config {
    /// Defaults < `/etc/toolyard/toolyard.toml` < the user's < the yard's < `TOOLYARD_*`.
    pub fn load(root: &Path, env: &[(OsString, OsString)]) -> Result<Config, Error> {
        let mut config = Config::default();
        let var = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, value)| PathBuf::from(value));
        let user = var("XDG_CONFIG_HOME").or_else(|| var("HOME").map(|home| home.join(".config")));
        let files = [
            Some(PathBuf::from("/etc/toolyard/toolyard.toml")),
            user.map(|folder| folder.join("toolyard/toolyard.toml")),
        ];
        for file in files.into_iter().flatten() {
            let opened = beneath::open_regular_anywhere(&file);
            config.add_file(&file, opened.and_then(|opened| beneath::read_all(opened, doc::MAX_BYTES)))?;
        }
        config.add_file(&root.join(FILE), read_yard_file(root))?;
        for (name, node) in environment::layers(env)? {
            config.add(&node).map_err(|problem| {
                let message = format!("the environment variable {name}: {}", problem.message);
                Error { hint: problem.hint, ..Error::new(ErrorKind::InvalidInput, message) }
            })?;
        }
        Ok(config)
    }

    fn add_file(&mut self, file: &Path, content: Result<Vec<u8>, ReadError>) -> Result<(), Error> {
        let bytes = match content {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => {
                return Err(Error::new(ErrorKind::Unavailable, format!("{} {error}", file.display())));
            }
        };
        let added = doc::read(DocumentFormat::Toml, &bytes).and_then(|node| self.add(&node));
        added.map_err(|problem| {
            let message = format!("{}:{}: {}", file.display(), problem.position, problem.message);
            Error { hint: problem.hint, ..Error::new(ErrorKind::InvalidInput, message) }
        })
    }

    /// Applies one document over the earlier ones. Stops at the first problem; nothing partial is used.
    fn add(&mut self, node: &Node) -> Result<(), Problem> {
        let mut fields = Fields::open(node, "")?;
        for (name, read) in SECTIONS {
            if let Some(mut section) = fields.map(name) {
                replaced::refuse(name, &mut section);
                read(self, &mut section);
                fields.close(section);
            }
        }
        fields.finish(&[]).into_iter().next().map_or(Ok(()), Err)
    }

    /// What decides how tool files are read.
    pub fn load_settings(&self) -> LoadSettings {
        let sandbox::Sandbox { level, require, allow_home } = self.sandbox;
        let sandbox_policy = SandboxPolicy { level, require, allow_home };
        let prepare_network = self.prepare.network;
        LoadSettings { defaults: self.limits.defaults(), sandbox_policy, prepare_network }
    }

    /// Sources and limits of the resources.
    pub fn resource_setup(&self, root: &Path, state: &Path) -> Setup {
        Setup {
            yard: root.to_owned(),
            state: state.to_owned(),
            roots: self.resources.roots.clone(),
            max_bytes: self.limits.resource(),
        }
    }

    pub fn state_dir(&self, root: &Path) -> PathBuf {
        root.join(self.state.dir.as_deref().unwrap_or(Path::new(".toolyard")))
    }
}

/// The configuration file of a yard.
pub const FILE: &str = "toolyard.toml";

/// Its content: a regular file of the yard itself, because a link could lead to a file that a tool can write.
pub fn read_yard_file(root: &Path) -> Result<Vec<u8>, ReadError> {
    beneath::read_all(beneath::open_regular(root, Path::new(FILE), LinkPolicy::Forbid)?, doc::MAX_BYTES)
}

pub use changes::{Applies, Change};
pub use environment::unknown_variables;
pub use server::{Server, parse_listen};

type ReadSection = fn(&mut Config, &mut Fields<'_>);

const SECTIONS: &[(&str, ReadSection)] = &[
    ("server", |config, fields| config.server.read(fields)),
    ("auth", |config, fields| config.auth.read(fields)),
    ("limits", |config, fields| config.limits.read(fields)),
    ("audit", |config, fields| config.audit.read(fields)),
    ("cache", |config, fields| config.cache.read(fields)),
    ("jobs", |config, fields| config.jobs.read(fields)),
    ("sandbox", |config, fields| config.sandbox.read(fields)),
    ("prepare", |config, fields| config.prepare.read(fields)),
    ("state", |config, fields| config.state.read(fields)),
    ("builtin", |config, fields| config.builtin.read(fields)),
    ("resources", |config, fields| config.resources.read(fields)),
];
