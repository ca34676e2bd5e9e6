//! The stores that a case runs on, and helpers that create their contents.

use crate::bucket::StoredBucket;
use crate::sqlite::{self, Database};
use crate::suite::memory;
use std::fmt::Debug;
use std::sync::Arc;
use toolyard_engine::stores::{
    AnnotationStore, ArchiveStore, ArtifactStore, GraphStore, LimitStore, NewAnnotation, NewArtifact,
    StoreError,
};
use toolyard_protocol::{Id, Timestamp};

/// Empty stores of one kind. Artifacts and annotations belong together.
#[derive(Clone)]
pub struct Stores {
    pub artifacts: Arc<dyn ArtifactStore>,
    pub annotations: Arc<dyn AnnotationStore>,
    pub graph: Arc<dyn GraphStore>,
    pub archive: Arc<dyn ArchiveStore>,
    pub limits: Arc<dyn LimitStore>,
    buckets: Buckets,
}

/// Access to the buckets, which the trait of the limits does not allow to read.
#[derive(Clone)]
enum Buckets {
    Memory(Arc<memory::Limits>),
    Sqlite(Arc<Database>),
}

impl Stores {
    pub fn in_memory() -> Stores {
        let artifacts = Arc::new(memory::Artifacts::default());
        let limits = Arc::new(memory::Limits::default());
        Stores {
            artifacts: artifacts.clone(),
            annotations: artifacts,
            graph: Arc::new(memory::Graph::default()),
            archive: Arc::new(memory::Archive::default()),
            limits: limits.clone(),
            buckets: Buckets::Memory(limits),
        }
    }

    pub fn in_sqlite(database: Arc<Database>) -> Stores {
        Stores {
            artifacts: Arc::new(sqlite::Artifacts::new(database.clone())),
            annotations: Arc::new(sqlite::Annotations::new(database.clone())),
            graph: Arc::new(sqlite::Graph::new(database.clone())),
            archive: Arc::new(sqlite::Archive::new(database.clone())),
            limits: Arc::new(sqlite::Limits::new(database.clone())),
            buckets: Buckets::Sqlite(database),
        }
    }

    pub async fn buckets(&self) -> Vec<(String, StoredBucket)> {
        match &self.buckets {
            Buckets::Memory(limits) => limits.buckets(),
            Buckets::Sqlite(database) => database.read(sqlite::buckets).await.unwrap(),
        }
    }
}

/// Runs each case as a test on each subject. A case is an `async fn case(stores: &Stores)`.
macro_rules! cases {
    ($($case:ident)*) => {
        mod memory {
            use crate::suite::cases::{InMemory, Subject};
            $(#[tokio::test]
            async fn $case() {
                super::$case(InMemory::fresh(1).others()).await;
            })*
        }
        mod sqlite {
            use crate::suite::cases::{InSqlite, Subject};
            $(#[tokio::test]
            async fn $case() {
                super::$case(InSqlite::fresh(1).others()).await;
            })*
        }
    };
}
pub(crate) use cases;

/// Ids sort by their number.
pub fn id(n: u64) -> Id {
    Id::from_parts(n, [0; 10])
}

pub fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

pub fn new_artifact(n: u64) -> NewArtifact {
    NewArtifact {
        id: id(n),
        hash: format!("{n:064x}"),
        size: n,
        mime: "text/plain".into(),
        lineage: Default::default(),
        metadata: None,
        now: at(n),
    }
}

pub fn new_annotation(n: u64, artifact: u64, message: &str) -> NewAnnotation {
    NewAnnotation {
        id: id(n),
        artifact: id(artifact),
        message: message.into(),
        source: None,
        vibe: None,
        now: at(n),
    }
}

#[track_caller]
pub fn assert_invalid<T: Debug>(result: Result<T, StoreError>, says: &str) {
    match result {
        Err(StoreError::Invalid(message)) if message.contains(says) => {}
        other => panic!("expected Invalid with {says:?}, got {other:?}"),
    }
}
