//! Conformance cases of the stores, written once and run on each implementation.
//!
//! A store adds a file of cases here; an implementation adds a [`Subject`] and a line in `on_every_subject`.

mod annotations;
mod archive;
mod artifacts;
mod cache;
mod events;
mod graph;
mod histories;
mod job_stops;
mod jobs;
mod limits;
mod model;
mod properties;
mod rng;
mod stores;

use super::memory;
use crate::sqlite::{self, Database, NoFaults, tests::TempDir};
use std::sync::Arc;
use stores::Stores;
use toolyard_engine::stores::{EventStore, JobStore};
use toolyard_protocol::{Id, Timestamp};

/// One implementation: creates a fresh set of stores that share their state.
pub trait Subject {
    fn fresh(ring: u64) -> Self;

    /// Simulates a restart of the process.
    async fn reopen(self) -> Self;

    fn jobs(&self) -> &dyn JobStore;

    fn events(&self) -> &dyn EventStore;

    /// Artifacts, annotations, graph, archive and limits.
    fn others(&self) -> &Stores;
}

/// Runs each case as a test on each subject. A case is an `async fn case<S: Subject>()`.
macro_rules! on_every_subject {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $case() { super::$case::<crate::suite::cases::InMemory>().await })*
        }
        mod sqlite {
            $(#[tokio::test] async fn $case() { super::$case::<crate::suite::cases::InSqlite>().await })*
        }
    };
}
pub(crate) use on_every_subject;

/// Nothing outlives the process, so a restart reuses the same maps.
pub struct InMemory {
    jobs: memory::Jobs,
    events: memory::Events,
    others: Stores,
}

impl Subject for InMemory {
    fn fresh(ring: u64) -> InMemory {
        let memory = memory::Memory::new(ring);
        let others = Stores::in_memory();
        InMemory { jobs: memory::Jobs(memory.clone()), events: memory::Events(memory), others }
    }

    async fn reopen(self) -> InMemory {
        self
    }

    fn jobs(&self) -> &dyn JobStore {
        &self.jobs
    }

    fn events(&self) -> &dyn EventStore {
        &self.events
    }

    fn others(&self) -> &Stores {
        &self.others
    }
}

pub struct InSqlite {
    ring: u64,
    folder: TempDir,
    database: Arc<Database>,
    jobs: sqlite::Jobs,
    events: sqlite::Events,
    others: Stores,
}

impl InSqlite {
    fn open(folder: TempDir, ring: u64) -> InSqlite {
        let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
        let events = sqlite::Events::new(database.clone(), ring);
        let jobs = sqlite::Jobs::new(database.clone(), &events);
        let others = Stores::in_sqlite(database.clone());
        InSqlite { ring, folder, database, jobs, events, others }
    }
}

impl Subject for InSqlite {
    fn fresh(ring: u64) -> InSqlite {
        InSqlite::open(TempDir::fresh(), ring)
    }

    async fn reopen(self) -> InSqlite {
        self.database.close().await;
        InSqlite::open(self.folder, self.ring)
    }

    fn jobs(&self) -> &dyn JobStore {
        &self.jobs
    }

    fn events(&self) -> &dyn EventStore {
        &self.events
    }

    fn others(&self) -> &Stores {
        &self.others
    }
}

/// The n-th id; they sort by number.
pub fn id(n: u64) -> Id {
    Id::from_parts(1_700_000_000_000 + n, [7; 10])
}

pub fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_700_000_000_000 + ms)
}
