//! What clients can read besides calling tools: the yard's resource files, the folders its owner opens, and what Toolyard
//! itself keeps. One source per scheme; `engine` joins and guards them.

mod address;
mod declared;
mod kept;
mod mime;
mod once;
mod root;
mod roots;
mod shelf;
mod watching;

pub use address::is_root_name;
pub use root::May;

use crate::builtin::{Selection, Services};
use kept::{Artifacts, JobResults, Kept, ToolSpecs};
use root::{Root, RootError};
use roots::Roots;
use shelf::Shelf;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::broadcast;
use toolyard_engine::resources::{Guarded, Joined, not_found};
use toolyard_engine::{Engine, Resources, Severity, SourceProblem};
use toolyard_protocol::text::visible;
use toolyard_protocol::{Error, ErrorKind};
use watching::Watching;

/// A folder that the owner opens to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSetting {
    pub name: String,
    /// Relative to the yard, or absolute.
    pub path: PathBuf,
    pub may: May,
}

/// What the resources of a yard are made of.
pub struct Setup {
    pub yard: PathBuf,
    pub state: PathBuf,
    pub roots: Vec<RootSetting>,
    /// The largest content that is given or taken.
    pub max_bytes: u64,
}

/// The resources of a yard, ready for every edge.
pub struct Opened {
    pub resources: Arc<dyn Resources>,
    pub problems: Vec<SourceProblem>,
    shelf: Option<Arc<Shelf>>,
}

/// Changes that a slow listener may fall behind by.
const BACKLOG: usize = 1024;

impl Setup {
    pub fn open(
        &self,
        engine: Arc<Engine>,
        services: &Arc<Services>,
        on: &Selection,
    ) -> Result<Opened, Error> {
        let notices = broadcast::Sender::new(BACKLOG);
        let watching = Watching::start().map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("resources cannot be watched: {error}"))
        })?;
        let watching = Arc::new(watching);
        let (roots, mut problems) = self.open_roots();
        let mut sources: Vec<Arc<dyn Resources>> = Vec::new();
        let yard = self.open_yard();
        let shelf =
            yard.map(|yard| Shelf::load(Arc::new(yard), engine.clone(), watching.clone(), notices.clone()));
        let shelf = shelf.map_err(|error| problems.push(problem(".", error.to_string()))).ok();
        if let Some(shelf) = &shelf {
            problems.extend(shelf.problems());
            sources.push(shelf.clone());
        }
        sources.push(Arc::new(Roots::new(roots, watching, notices.clone())));
        let max = self.max_bytes;
        sources.extend(Kept::if_on(on, Artifacts { services: services.clone(), max }, &notices));
        sources.extend(Kept::if_on(on, JobResults { services: services.clone() }, &notices));
        sources.extend(Kept::if_on(on, ToolSpecs { services: services.clone() }, &notices));
        let joined = Arc::new(Joined::new(sources, notices));
        let resources = Arc::new(Guarded::new(joined, engine));
        Ok(Opened { resources, problems, shelf })
    }

    /// What is wrong with resource files and roots; nothing is served.
    pub fn check(&self) -> Vec<SourceProblem> {
        let mut problems = self.open_roots().1;
        match self.open_yard() {
            Ok(yard) => problems.extend(declared::load(&yard).1),
            Err(error) => problems.push(problem(".", error.to_string())),
        }
        problems
    }

    fn open_yard(&self) -> Result<Root, RootError> {
        Root::open("yard", &self.yard, &self.state, May::default(), self.max_bytes)
    }

    fn open_roots(&self) -> (Vec<Arc<Root>>, Vec<SourceProblem>) {
        let (mut roots, mut problems) = (Vec::new(), Vec::new());
        for setting in &self.roots {
            match self.open_root(setting) {
                Ok(root) => roots.push(Arc::new(root)),
                Err(what) => {
                    let message = format!("the root '{}' is left out: {what}", setting.name);
                    problems.push(problem("toolyard.toml", message));
                }
            }
        }
        (roots, problems)
    }

    fn open_root(&self, setting: &RootSetting) -> Result<Root, String> {
        let shown = setting.path.display();
        let path = std::fs::canonicalize(self.yard.join(&setting.path));
        let path = path.map_err(|error| format!("{shown} cannot be opened: {error}"))?;
        let own = |folder: &Path| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        if path.starts_with(own(&self.state)) {
            return Err(format!("{shown} lies in the state folder, which is never given out"));
        }
        // Whoever may write there could give the yard a tool, and so run what they like.
        let yard = own(&self.yard);
        let makes_tools =
            ["tools", declared::FOLDER, "prompts"].iter().any(|name| path.starts_with(own(&yard.join(name))));
        let May { write, delete } = setting.may;
        if (write || delete) && (makes_tools || yard.starts_with(&path)) {
            return Err(format!(
                "{shown} holds the yard's own files, which must not be written or deleted by clients; \
                 name a folder that has nothing else in it"
            ));
        }
        Root::open(&setting.name, &path, &self.state, setting.may, self.max_bytes)
            .map_err(|error| format!("{shown}: {error}"))
    }
}

impl Opened {
    /// Reads resource files again whenever they change; `tell` hears of new problems.
    pub fn follow(&self, tell: impl Fn(&[SourceProblem]) + Send + Sync + 'static) {
        if let Some(shelf) = &self.shelf {
            shelf.follow(tell);
        }
    }
}

fn problem(source: &str, message: String) -> SourceProblem {
    SourceProblem { source: source.to_owned(), place: None, message, hint: None, severity: Severity::Error }
}

/// Files are read and written in threads that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| shutting_down())
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::Unavailable, "the server is shutting down")
}

/// What a caller is told. `source` is where the owner can change it.
fn failure(uri: &str, source: &str, error: RootError) -> Error {
    let shown: String = visible(uri).chars().take(200).collect();
    let failed = |kind, hint: String| Error::new(kind, format!("'{shown}' is not given: {error}")).hint(hint);
    match &error {
        RootError::Missing | RootError::Folder => not_found(uri),
        RootError::NotRegular | RootError::Link | RootError::OtherMount | RootError::OtherOwner => {
            failed(ErrorKind::Forbidden, "only plain files below the root are given out".to_owned())
        }
        RootError::Denied => {
            failed(ErrorKind::Forbidden, "its owner must let the server's user have it".to_owned())
        }
        RootError::TooLarge { .. } => {
            failed(ErrorKind::OutputTooLarge, "[limits] resource in toolyard.toml is the bound".to_owned())
        }
        RootError::Unsupported => failed(ErrorKind::Unavailable, "use a newer kernel".to_owned()),
        RootError::Io(_) => failed(ErrorKind::Unavailable, format!("see {source}")),
    }
}

fn read_only(uri: &str, source: &str) -> Error {
    let shown: String = visible(uri).chars().take(200).collect();
    Error::new(
        ErrorKind::Forbidden,
        format!("'{shown}' cannot be written or deleted: it comes from {source}"),
    )
    .hint("only files of a root can be changed, where the root allows it")
}
