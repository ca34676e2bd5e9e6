//! Services that all built-in tools share.

use super::config::ConfigView;
use super::files::YardFiles;
use serde::Serialize;
use std::sync::{Arc, Weak};
use toolyard_engine::clock::{Clock, Random, new_id};
use toolyard_engine::jobs::{Jobs, LazyJobs};
use toolyard_engine::stores::{AnnotationStore, ArtifactStore, GraphStore, NewEvent};
use toolyard_engine::{Lazy, Registry};
use toolyard_protocol::{Error, Format, Id, Timestamp};
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
        self.jobs.get()
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
        self.jobs()?.events().append(vec![event]).await?;
        Ok(())
    }
}

/// Opened when a tool first needs them, so that listing tools touches no file.
pub type LazyStores = Lazy<Stores>;
