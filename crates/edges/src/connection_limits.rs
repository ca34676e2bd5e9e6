//! How many connections each address has, so that one alone cannot take every permit, and which of them have never asked
//! for anything: those make room for others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit as Permit;
use tokio::task::AbortHandle;

/// Counts no more addresses than there are connections.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    max_per_address: usize,
    table: Arc<Mutex<HashMap<IpAddr, AddressUsage>>>,
}

#[derive(Default)]
struct AddressUsage {
    connections: usize,
    next: u64,
    /// Those without a whole request so far, the oldest first.
    idle: BTreeMap<u64, AbortHandle>,
    /// Those that were cut and are not gone yet: they count no more, or a second one would be cut in their stead.
    closing: BTreeSet<u64>,
}

/// One connection of an address, as long as it is held.
pub(crate) struct ConnectionGuard {
    limits: ConnectionLimits,
    address: IpAddr,
    number: u64,
    active: AtomicBool,
    permit: Option<Permit>,
}

impl ConnectionLimits {
    pub fn new(max_per_address: usize) -> ConnectionLimits {
        ConnectionLimits { max_per_address, table: Arc::default() }
    }

    /// Gives the permit back when the address has as many as it may and each of them has asked for something; else the
    /// one that has been idle longest makes room.
    pub fn admit(&self, address: IpAddr, permit: Permit) -> Result<Arc<ConnectionGuard>, Permit> {
        let mut table = self.table();
        let usage = table.entry(address).or_default();
        if usage.connections - usage.closing.len() >= self.max_per_address && !usage.abort_oldest_idle() {
            return Err(permit);
        }
        usage.connections += 1;
        usage.next += 1;
        let (number, active) = (usage.next, AtomicBool::new(false));
        Ok(Arc::new(ConnectionGuard { limits: self.clone(), address, number, active, permit: Some(permit) }))
    }

    /// Aborts one idle connection of the address that has most of them, unless one is about to leave anyway.
    pub fn evict_idle(&self) {
        let mut table = self.table();
        if table.values().any(|usage| !usage.closing.is_empty()) {
            return;
        }
        if let Some(usage) = table.values_mut().max_by_key(|usage| usage.idle.len()) {
            usage.abort_oldest_idle();
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressUsage>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressUsage {
    fn abort_oldest_idle(&mut self) -> bool {
        let Some((number, task)) = self.idle.pop_first() else { return false };
        task.abort();
        self.closing.insert(number)
    }
}

impl ConnectionGuard {
    /// Until it has asked for something, `task` may be cut.
    pub fn allow_eviction(&self, task: AbortHandle) {
        let mut table = self.limits.table();
        // It may have been quicker than we are; and one that is over already leaves nothing to cut.
        if self.active.load(Ordering::Relaxed) || task.is_finished() {
            return;
        }
        if let Some(usage) = table.get_mut(&self.address) {
            usage.idle.insert(self.number, task);
        }
    }

    /// A whole request has come.
    pub fn mark_active(&self) {
        if self.active.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.limits.table();
        self.active.store(true, Ordering::Relaxed);
        if let Some(usage) = table.get_mut(&self.address) {
            usage.idle.remove(&self.number);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // First, so that whoever finds no one closing finds the permit free.
        drop(self.permit.take());
        let mut table = self.limits.table();
        if let Some(usage) = table.get_mut(&self.address) {
            usage.idle.remove(&self.number);
            usage.closing.remove(&self.number);
            usage.connections -= 1;
            if usage.connections == 0 {
                table.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn count(limits: &ConnectionLimits, address: IpAddr) -> Option<Arc<ConnectionGuard>> {
        let permit = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
        limits.admit(address, permit).ok()
    }

    /// A connection that says nothing.
    fn idle_connection(
        limits: &ConnectionLimits,
        address: IpAddr,
    ) -> (Arc<ConnectionGuard>, tokio::task::JoinHandle<()>) {
        let guard = count(limits, address).unwrap();
        let held = guard.clone();
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        guard.allow_eviction(task.abort_handle());
        (guard, task)
    }

    #[test]
    fn each_address_has_its_own_count_and_leaves_nothing_behind() {
        let limits = ConnectionLimits::new(2);
        let held = [count(&limits, ONE).unwrap(), count(&limits, ONE).unwrap()];
        assert!(count(&limits, ONE).is_none());
        let guard = count(&limits, OTHER).unwrap();
        drop(held);
        assert!(count(&limits, ONE).is_some());
        drop(guard);
        assert!(limits.table().is_empty());
    }

    #[tokio::test]
    async fn the_longest_silent_makes_room_and_whoever_spoke_stays() {
        let limits = ConnectionLimits::new(3);
        let (first, second, third) =
            (idle_connection(&limits, ONE), idle_connection(&limits, ONE), idle_connection(&limits, ONE));
        first.0.mark_active();
        let fourth = count(&limits, ONE).unwrap();
        assert!(second.1.await.unwrap_err().is_cancelled());
        drop(second.0);
        assert!(!first.1.is_finished() && !third.1.is_finished());
        third.0.mark_active();
        fourth.mark_active();
        assert!(count(&limits, ONE).is_none(), "each of them has asked for something");
    }

    #[tokio::test]
    async fn the_address_with_most_silent_connections_makes_room_and_only_one_at_a_time() {
        let limits = ConnectionLimits::new(9);
        let (first, second, other) =
            (idle_connection(&limits, ONE), idle_connection(&limits, ONE), idle_connection(&limits, OTHER));
        limits.evict_idle();
        limits.evict_idle();
        assert!(first.1.await.unwrap_err().is_cancelled());
        assert!(!second.1.is_finished() && !other.1.is_finished());
        drop(first.0);
        limits.evict_idle();
        assert_eq!(limits.table().values().map(|usage| usage.closing.len()).sum::<usize>(), 1);
    }
}
