//! The stores that a case is run against, and short ways to make what goes into them.

use crate::stores::{
    AnnotationStore, Archive, ArtifactStore, GraphStore, LimitStore, NewAnnotation, NewArtifact, StoreError,
    memory,
};
use std::fmt::Debug;
use std::sync::Arc;
use toolyard_protocol::{Id, Timestamp};

/// Empty stores of one kind. Artifacts and annotations belong together.
#[derive(Clone)]
pub struct Stores {
    pub artifacts: Arc<dyn ArtifactStore>,
    pub annotations: Arc<dyn AnnotationStore>,
    pub graph: Arc<dyn GraphStore>,
    pub archive: Arc<dyn Archive>,
    pub limits: Arc<dyn LimitStore>,
}

impl Stores {
    pub fn in_memory() -> Stores {
        let artifacts = Arc::new(memory::Artifacts::default());
        Stores {
            artifacts: artifacts.clone(),
            annotations: artifacts,
            graph: Arc::new(memory::Graph::default()),
            archive: Arc::new(memory::Archive::default()),
            limits: Arc::new(memory::Limits::default()),
        }
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
