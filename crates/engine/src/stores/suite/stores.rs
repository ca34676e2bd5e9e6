//! The stores that a case is run against, and short ways to make what goes into them.

use crate::stores::bucket::Bucket;
use crate::stores::sqlite::{self, Database};
use crate::stores::{
    AnnotationStore, Archive, ArtifactStore, GraphStore, LimitStore, NewAnnotation, NewArtifact, StoreError,
    memory,
};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use toolyard_protocol::{Id, Timestamp};

/// Empty stores of one kind. Artifacts and annotations belong together.
#[derive(Clone)]
pub struct Stores {
    pub artifacts: Arc<dyn ArtifactStore>,
    pub annotations: Arc<dyn AnnotationStore>,
    pub graph: Arc<dyn GraphStore>,
    pub archive: Arc<dyn Archive>,
    pub limits: Arc<dyn LimitStore>,
    buckets: Buckets,
}

/// Limits cannot be looked at through their trait without changing them.
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

    pub fn in_file(database: Arc<Database>) -> Stores {
        Stores {
            artifacts: Arc::new(sqlite::Artifacts::new(database.clone())),
            annotations: Arc::new(sqlite::Annotations::new(database.clone())),
            graph: Arc::new(sqlite::Graph::new(database.clone())),
            archive: Arc::new(sqlite::Archive::new(database.clone())),
            limits: Arc::new(sqlite::Limits::new(database.clone())),
            buckets: Buckets::Sqlite(database),
        }
    }

    pub async fn buckets(&self) -> Vec<(String, Bucket)> {
        match &self.buckets {
            Buckets::Memory(limits) => limits.buckets(),
            Buckets::Sqlite(database) => database.read(sqlite::buckets).await.unwrap(),
        }
    }
}

/// A folder that goes away with its name.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Folder::below(&std::env::temp_dir())
    }

    /// Where syncing costs nothing, for tests that kill processes, not power.
    pub fn in_memory() -> Folder {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Folder::below(memory) } else { Folder::new() }
    }

    fn below(parent: &Path) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("toolyard-stores-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("yard.sqlite")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs each case against each kind of store, as a test of its own.
macro_rules! cases {
    ($($case:ident)*) => {
        mod in_memory {
            use crate::stores::suite::stores::Stores;
            $(#[tokio::test]
            async fn $case() {
                super::$case(&Stores::in_memory()).await;
            })*
        }
        mod in_file {
            use crate::stores::sqlite::{Database, NoFaults};
            use crate::stores::suite::stores::{Folder, Stores};
            use std::sync::Arc;
            $(#[tokio::test]
            async fn $case() {
                let folder = Folder::new();
                let database = Database::open(&folder.file(), Arc::new(NoFaults)).unwrap();
                super::$case(&Stores::in_file(database.clone())).await;
                database.close().await;
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
