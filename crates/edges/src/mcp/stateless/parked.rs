//! Calls that wait for answers from their client. Bounded in number and time; evicted calls are cancelled.

use crate::mcp::lock;
use crate::mcp::stateless::StatelessCall;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

pub(in crate::mcp) struct ParkedCalls {
    max: usize,
    calls: Mutex<HashMap<[u8; 16], (Instant, StatelessCall)>>,
}

impl ParkedCalls {
    pub fn new(max: usize) -> ParkedCalls {
        ParkedCalls { max, calls: Mutex::default() }
    }

    /// Parks a call. When the table is full, the oldest call is cancelled.
    pub fn put(&self, handle: [u8; 16], until: Instant, call: StatelessCall) {
        let mut calls = lock(&self.calls);
        let evicted = if calls.len() >= self.max {
            let oldest = calls.iter().min_by_key(|(_, (until, _))| *until).map(|(handle, _)| *handle);
            oldest.and_then(|handle| calls.remove(&handle))
        } else {
            None
        };
        calls.insert(handle, (until, call));
        drop(calls);
        // Dropping a call kills processes, so it happens outside the lock.
        drop(evicted);
    }

    /// Handles are unguessable and sealed: possession of one is enough to take the call, once.
    pub fn take(&self, handle: &[u8; 16]) -> Option<StatelessCall> {
        lock(&self.calls).remove(handle).map(|(_, call)| call)
    }

    pub fn clear(&self) {
        let calls = std::mem::take(&mut *lock(&self.calls));
        drop(calls);
    }

    pub fn sweep(&self, now: Instant) {
        let mut calls = lock(&self.calls);
        let old: Vec<[u8; 16]> =
            calls.iter().filter(|(_, (until, _))| *until <= now).map(|(handle, _)| *handle).collect();
        let evicted: Vec<_> = old.iter().filter_map(|handle| calls.remove(handle)).collect();
        drop(calls);
        drop(evicted);
    }
}
