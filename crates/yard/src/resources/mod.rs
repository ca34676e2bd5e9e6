//! Resources: the yard's resource files, the roots that its owner shares, and Toolyard's own artifacts, jobs
//! and tool specifications. One source per scheme; `engine` combines them and applies the gates.

mod builtin_schemes;
mod declared;
mod file_uri;
mod index;
mod mime;
mod root;
mod roots;
mod shared_watches;
mod watcher;

pub use declared::has_files;
pub(crate) use file_uri::check_name;
pub use file_uri::is_root_name;
pub use root::RootAccess;

use builtin_schemes::{Artifacts, BuiltinResources, JobResults, ToolSpecs};
use index::ResourceIndex;
use root::{Root, RootError, SizeLimit};
use roots::Roots;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::broadcast;
use toolyard_engine::resources::{CombinedResources, GatedResources, not_found};
use toolyard_engine::{Engine, Resources, Severity, SourceProblem};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::builtin::{Group, Selection, Services};
use toolyard_runtimes::grants::PROTECTED;
use watcher::FileWatcher;

/// A folder that the owner shares with clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSetting {
    pub name: String,
    /// Relative to the yard, or absolute.
    pub path: PathBuf,
    pub access: RootAccess,
}

/// Where the resources of a yard come from.
pub struct Setup {
    pub yard: PathBuf,
    pub state: PathBuf,
    pub roots: Vec<RootSetting>,
    /// The largest content that is read or written.
    pub max_bytes: u64,
}

/// The resources of a yard, ready for every edge.
pub struct OpenResources {
    pub resources: Arc<dyn Resources>,
    pub problems: Vec<SourceProblem>,
    index: Option<Arc<ResourceIndex>>,
    roots: Arc<Roots>,
    /// All built-in schemes, enabled or not.
    builtin: Vec<(Group, Arc<dyn Resources>)>,
    combined: Arc<CombinedResources>,
    max_bytes: SizeLimit,
}

/// Changes that are buffered for a slow subscriber.
const BACKLOG: usize = 1024;

impl Setup {
    pub fn open(
        &self,
        engine: Arc<Engine>,
        services: &Arc<Services>,
        on: &Selection,
    ) -> Result<OpenResources, Error> {
        let changes = broadcast::Sender::new(BACKLOG);
        let watcher = FileWatcher::start().map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("resources cannot be watched: {error}"))
        })?;
        let watcher = Arc::new(watcher);
        let (max_bytes, mut problems) = (SizeLimit::from(self.max_bytes), Vec::new());
        let yard = self.open_yard(&max_bytes);
        let index = yard.map(|yard| {
            ResourceIndex::load(Arc::new(yard), engine.clone(), watcher.clone(), changes.clone())
        });
        let index = index.map_err(|error| problems.push(problem(".", error.to_string()))).ok();
        problems.extend(index.iter().flat_map(|index| index.problems()));
        let (services, max) = (|| services.clone(), max_bytes.clone());
        let builtin = vec![
            BuiltinResources::source(Artifacts { services: services(), max }, &changes),
            BuiltinResources::source(JobResults { services: services() }, &changes),
            BuiltinResources::source(ToolSpecs { services: services() }, &changes),
        ];
        let roots = Arc::new(Roots::new(watcher, changes.clone()));
        let combined = Arc::new(CombinedResources::new(Vec::new(), changes));
        let resources = Arc::new(GatedResources::new(combined.clone(), engine));
        let mut opened = OpenResources { resources, problems, index, roots, builtin, combined, max_bytes };
        opened.problems.extend(opened.update(self, on));
        Ok(opened)
    }

    /// The problems of resource files and roots, without serving them.
    pub fn check(&self) -> Vec<SourceProblem> {
        let max_bytes = SizeLimit::from(self.max_bytes);
        let mut problems = self.open_roots(&max_bytes).1;
        match self.open_yard(&max_bytes) {
            Ok(yard) => problems.extend(declared::load(&yard).1),
            Err(error) => problems.push(problem(".", error.to_string())),
        }
        problems
    }

    fn open_yard(&self, max_bytes: &SizeLimit) -> Result<Root, RootError> {
        Root::open("yard", &self.yard, &self.state, RootAccess::default(), max_bytes.clone())
    }

    fn open_roots(&self, max_bytes: &SizeLimit) -> (Vec<Arc<Root>>, Vec<SourceProblem>) {
        let (mut roots, mut problems) = (Vec::new(), Vec::new());
        for setting in &self.roots {
            match self.open_root(setting, max_bytes) {
                Ok(root) => roots.push(Arc::new(root)),
                Err(what) => {
                    let message = format!("the root '{}' is left out: {what}", setting.name);
                    problems.push(problem("toolyard.toml", message));
                }
            }
        }
        (roots, problems)
    }

    fn open_root(&self, setting: &RootSetting, max_bytes: &SizeLimit) -> Result<Root, String> {
        let shown = setting.path.display();
        let path = std::fs::canonicalize(self.yard.join(&setting.path));
        let path = path.map_err(|error| format!("{shown} cannot be opened: {error}"))?;
        let own = |folder: &Path| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        if path.starts_with(own(&self.state)) {
            return Err(format!("{shown} lies in the state folder, which cannot be shared"));
        }
        // Clients with write access there could add a tool, and so run any code.
        let yard = own(&self.yard);
        let makes_tools = PROTECTED.iter().any(|name| path.starts_with(own(&yard.join(name))));
        let RootAccess { write, delete } = setting.access;
        if (write || delete) && (makes_tools || yard.starts_with(&path)) {
            return Err(format!(
                "{shown} holds the yard's own files, which must not be written or deleted by clients; \
                 share a separate folder"
            ));
        }
        Root::open(&setting.name, &path, &self.state, setting.access, max_bytes.clone())
            .map_err(|error| format!("{shown}: {error}"))
    }
}

impl OpenResources {
    /// Applies other roots, another size limit and other built-in schemes; returns the problems of the roots.
    pub fn update(&self, setup: &Setup, on: &Selection) -> Vec<SourceProblem> {
        self.max_bytes.set(setup.max_bytes);
        let (roots, problems) = setup.open_roots(&self.max_bytes);
        self.roots.replace(roots);
        let mut sources: Vec<Arc<dyn Resources>> = Vec::new();
        sources.extend(self.index.iter().map(|index| index.clone() as Arc<dyn Resources>));
        sources.push(self.roots.clone());
        let enabled = self.builtin.iter().filter(|(group, _)| on.has(*group));
        sources.extend(enabled.map(|(_, source)| source.clone()));
        self.combined.replace_sources(sources);
        problems
    }

    /// Reads resource files again whenever they change; `on_problems` receives new problems.
    pub fn reload_on_change(&self, on_problems: impl Fn(&[SourceProblem]) + Send + Sync + 'static) {
        if let Some(index) = &self.index {
            index.reload_on_change(on_problems);
        }
    }
}

fn problem(source: &str, message: String) -> SourceProblem {
    SourceProblem {
        source: source.to_owned(),
        position: None,
        message,
        hint: None,
        severity: Severity::Error,
    }
}

/// Runs file access on threads that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| shutting_down())
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::Unavailable, "the server is shutting down")
}

/// The error for the caller. `source` is the file where the owner can change it.
fn failure(uri: &str, source: &str, error: RootError) -> Error {
    let shown: String = escape_control(uri).chars().take(200).collect();
    let failed =
        |kind, hint: String| Error::new(kind, format!("'{shown}' cannot be accessed: {error}")).hint(hint);
    match &error {
        RootError::Missing | RootError::Folder => not_found(uri),
        RootError::NotRegular | RootError::Link | RootError::OtherMount | RootError::OtherOwner => {
            failed(ErrorKind::Forbidden, "only regular files below the root can be accessed".to_owned())
        }
        RootError::Denied => {
            failed(ErrorKind::Forbidden, "its owner must give the server's user permission".to_owned())
        }
        RootError::TooLarge { .. } => {
            failed(ErrorKind::OutputTooLarge, "[limits] resource in toolyard.toml is the limit".to_owned())
        }
        RootError::Unsupported => failed(ErrorKind::Unavailable, "use a newer kernel".to_owned()),
        RootError::Io(_) => failed(ErrorKind::Unavailable, format!("see {source}")),
    }
}

fn read_only(uri: &str, source: &str) -> Error {
    let shown: String = escape_control(uri).chars().take(200).collect();
    Error::new(
        ErrorKind::Forbidden,
        format!("'{shown}' cannot be written or deleted: it comes from {source}"),
    )
    .hint("only files of a root can be changed, where the root allows it")
}
