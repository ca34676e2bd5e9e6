//! The current prompts of a yard; a reload replaces them.

use super::packs::Packs;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

#[derive(Default)]
pub struct PromptIndex {
    packs: RwLock<Arc<Packs>>,
    /// Incremented on every change.
    changes: watch::Sender<u64>,
}

impl PromptIndex {
    pub fn packs(&self) -> Arc<Packs> {
        self.packs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the prompts; true when their content changed.
    pub fn update(&self, packs: Arc<Packs>) -> bool {
        let mut current = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        let same = current.is_same(&packs);
        *current = packs;
        drop(current);
        if !same {
            self.changes.send_modify(|count| *count += 1);
        }
        !same
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
