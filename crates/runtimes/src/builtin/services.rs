//! Services that all built-in tools share.

use super::config::ConfigView;
use super::files::YardFiles;
use serde::Serialize;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use toolyard_engine::Registry;
use toolyard_engine::clock::{Clock, Random, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs};
use toolyard_engine::stores::{AnnotationStore, ArtifactStore, GraphStore, NewEvent};
use toolyard_protocol::{Error, ErrorKind, Format, Id, Timestamp};
use toolyard_store::Blobs;
use toolyard_wire::typed;

pub struct Services {
    /// Weak, because the registry owns the tools.
    pub registry: Weak<Registry>,
    pub config: Arc<dyn ConfigView>,
    /// Jobs and events.
    pub jobs: LazyJobs,
    pub stores: LazyStores,
    pub files: YardFiles,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// Persistent stores other than jobs and events.
pub struct Stores {
    pub artifacts: Arc<dyn ArtifactStore>,
    pub annotations: Arc<dyn AnnotationStore>,
    pub graph: Arc<dyn GraphStore>,
    pub blobs: Arc<Blobs>,
}

impl Services {
    pub fn jobs(&self) -> Result<&Arc<Jobs>, Error> {
        self.jobs.jobs()
    }

    pub fn stores(&self) -> Result<&Stores, Error> {
        self.stores.get()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn new_id(&self) -> Id {
        new_id(self.clock.as_ref(), self.random.as_ref())
    }

    /// Appends an event to the event log.
    pub async fn emit_event(&self, kind: &str, subject: Id, data: &impl Serialize) -> Result<(), Error> {
        let data = typed::write(data, Format::Json)?;
        let event =
            NewEvent { at: self.now(), kind: kind.to_owned(), subject: Some(subject.to_string()), data };
        self.jobs()?.events().append(event).await?;
        Ok(())
    }
}

type OpenStores = Box<dyn Fn() -> Result<Stores, Error> + Send + Sync>;

/// Stores that are opened on first use, so that listing tools opens no file.
pub struct LazyStores {
    opened: OnceLock<Stores>,
    /// Locked while opening, so that it happens once. After a failure the next call tries again.
    open: Mutex<OpenStores>,
}

impl LazyStores {
    pub fn new(open: impl Fn() -> Result<Stores, Error> + Send + Sync + 'static) -> LazyStores {
        LazyStores { opened: OnceLock::new(), open: Mutex::new(Box::new(open)) }
    }

    /// For a program without stores.
    pub fn unavailable() -> LazyStores {
        LazyStores::new(|| Err(Error::new(ErrorKind::Unavailable, "no stores are available here")))
    }

    pub fn get(&self) -> Result<&Stores, Error> {
        if let Some(stores) = self.opened.get() {
            return Ok(stores);
        }
        let open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(stores) = self.opened.get() {
            return Ok(stores);
        }
        let stores = open()?;
        Ok(self.opened.get_or_init(|| stores))
    }
}
