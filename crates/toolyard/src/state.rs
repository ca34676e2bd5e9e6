//! The stores in the state folder: one database and one folder of blobs, each opened once, on first use.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use toolyard_engine::Lazy;
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{self, Jobs, LazyJobs, SteadyClock};
use toolyard_engine::stores::LimitStore;
use toolyard_formats::cache_key::CanonicalKey;
use toolyard_protocol::Error;
use toolyard_runtimes::builtin::{LazyStores, Stores};
use toolyard_store::faults;
use toolyard_store::{Blobs, sqlite};
use toolyard_wire::outcome::JsonOutcomeCodec;

const DATABASE: &str = "yard.sqlite";
const BLOBS: &str = "blobs";

/// The state folder; its files are created on first use.
pub struct StateDir {
    dir: PathBuf,
    /// Shared by all stores, so that they share its writer.
    database: Mutex<Option<Arc<sqlite::Database>>>,
}

impl StateDir {
    pub fn new(dir: PathBuf) -> Arc<StateDir> {
        Arc::new(StateDir { dir, database: Mutex::default() })
    }

    /// Whether the database or the blob folder exists.
    pub fn exists(&self) -> bool {
        self.dir.join(DATABASE).exists() || self.dir.join(BLOBS).exists()
    }

    pub fn lazy_jobs(self: &Arc<Self>, options: jobs::SharedOptions) -> LazyJobs {
        let state = self.clone();
        LazyJobs::new(move || state.open_jobs(options.clone()))
    }

    pub fn lazy_stores(self: &Arc<Self>) -> LazyStores {
        let state = self.clone();
        LazyStores::new(move || state.open_stores())
    }

    /// Opened when the first tool with a rate limit is called.
    pub fn lazy_rate_limits(self: &Arc<Self>) -> Lazy<Arc<dyn LimitStore>> {
        let state = self.clone();
        Lazy::new(move || Ok(Arc::new(sqlite::Limits::new(state.database()?)) as Arc<dyn LimitStore>))
    }

    pub fn open_jobs(&self, options: jobs::SharedOptions) -> Result<Arc<Jobs>, Error> {
        let database = self.database()?;
        let events = sqlite::Events::new(database.clone(), sqlite::RING);
        let parts = jobs::Parts {
            store: Arc::new(sqlite::Jobs::new(database, &events)),
            events: Arc::new(events),
            codec: Arc::new(JsonOutcomeCodec),
            arguments: Arc::new(CanonicalKey),
            clock: Arc::new(self.clock()),
            options,
        };
        Ok(Jobs::open(&self.dir, new_id(&SystemClock, &SystemRandom), parts)?)
    }

    /// The job table only, without workers that run jobs.
    pub fn job_store(&self) -> Result<sqlite::Jobs, Error> {
        let database = self.database()?;
        let events = sqlite::Events::new(database.clone(), sqlite::RING);
        Ok(sqlite::Jobs::new(database, &events))
    }

    /// The clock by which a server removes jobs.
    pub fn clock(&self) -> SteadyClock {
        let wall: Arc<dyn Clock> = Arc::new(SystemClock);
        SteadyClock::open(&self.dir, &wall)
    }

    /// Gives space that is no longer used back to the file system.
    pub fn compact(&self) -> Result<(), Error> {
        let database = self.dir.join(DATABASE);
        if database.exists() { Ok(sqlite::compact(&database)?) } else { Ok(()) }
    }

    pub fn open_stores(&self) -> Result<Stores, Error> {
        let database = self.database()?;
        Ok(Stores {
            artifacts: Arc::new(sqlite::Artifacts::new(database.clone())),
            annotations: Arc::new(sqlite::Annotations::new(database.clone())),
            graph: Arc::new(sqlite::Graph::new(database)),
            blobs: Blobs::open(&self.dir.join(BLOBS), Arc::new(faults::NoFaults))?,
        })
    }

    fn database(&self) -> Result<Arc<sqlite::Database>, Error> {
        let mut known = self.database.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(database) = &*known {
            return Ok(database.clone());
        }
        let database = sqlite::Database::open(&self.dir.join(DATABASE), Arc::new(sqlite::NoFaults))?;
        *known = Some(database.clone());
        Ok(database)
    }
}
