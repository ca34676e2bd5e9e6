//! Turns that wait for their client to come back with answers. Bounded in number and time; what falls out is cancelled.

use super::lock;
use super::turn::Turn;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

pub(super) struct Parked {
    most: usize,
    turns: Mutex<HashMap<[u8; 16], (Instant, Turn)>>,
}

impl Parked {
    pub fn new(most: usize) -> Parked {
        Parked { most, turns: Mutex::default() }
    }

    /// Keeps a turn. When there is no place, the one that waits longest leaves.
    pub fn put(&self, handle: [u8; 16], until: Instant, turn: Turn) {
        let mut turns = lock(&self.turns);
        let left = if turns.len() >= self.most {
            let oldest = turns.iter().min_by_key(|(_, (until, _))| *until).map(|(handle, _)| *handle);
            oldest.and_then(|handle| turns.remove(&handle))
        } else {
            None
        };
        turns.insert(handle, (until, turn));
        drop(turns);
        // Cancelling kills processes: not under the lock.
        drop(left);
    }

    /// Handles are unguessable and sealed, so whoever has one may take the turn, once.
    pub fn take(&self, handle: &[u8; 16]) -> Option<Turn> {
        lock(&self.turns).remove(handle).map(|(_, turn)| turn)
    }

    pub fn clear(&self) {
        let turns = std::mem::take(&mut *lock(&self.turns));
        drop(turns);
    }

    pub fn sweep(&self, now: Instant) {
        let mut turns = lock(&self.turns);
        let old: Vec<[u8; 16]> =
            turns.iter().filter(|(_, (until, _))| *until <= now).map(|(handle, _)| *handle).collect();
        let left: Vec<_> = old.iter().filter_map(|handle| turns.remove(handle)).collect();
        drop(turns);
        drop(left);
    }
}
