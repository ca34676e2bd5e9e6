//! Limits connections per address, so that one address cannot take every permit. Connections without a
//! request so far are idle and are evicted first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit as Permit;
use tokio::task::AbortHandle;
use tracing::warn;

/// The table has an entry per address with an open connection.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    max_per_address: usize,
    table: Arc<Mutex<HashMap<IpAddr, AddressUsage>>>,
}

#[derive(Default)]
struct AddressUsage {
    connections: usize,
    next: u64,
    /// Connections without a complete request so far, the oldest first.
    idle: BTreeMap<u64, AbortHandle>,
    /// Aborted connections that have not ended yet: they no longer count, so that no second one is aborted.
    closing: BTreeSet<u64>,
}

/// An open connection, which can be ended from outside.
#[derive(Default)]
pub(crate) struct Connection {
    address: Option<IpAddr>,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    task: Option<AbortHandle>,
    is_ended: bool,
}

impl Connection {
    /// Ends the connection; what it had still to send is dropped.
    pub fn disconnect(&self, why: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.is_ended, true) {
            return;
        }
        let client = self.address.map(tracing::field::display);
        warn!(target: crate::server::TARGET, client, "client disconnected: {why}");
        if let Some(task) = &state.task {
            task.abort();
        }
    }

    fn set_task(&self, task: AbortHandle) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_ended {
            task.abort();
        }
        state.task = Some(task);
    }
}

/// Counts one connection of an address until it is dropped.
pub(crate) struct ConnectionGuard {
    pub connection: Arc<Connection>,
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

    /// At the limit, the connection that has been idle longest is evicted. When none is idle, the permit is
    /// returned as the error.
    pub fn admit(&self, address: IpAddr, permit: Permit) -> Result<Arc<ConnectionGuard>, Permit> {
        let mut table = self.table();
        let usage = table.entry(address).or_default();
        if usage.connections - usage.closing.len() >= self.max_per_address && !usage.abort_oldest_idle() {
            return Err(permit);
        }
        usage.connections += 1;
        usage.next += 1;
        let (number, active) = (usage.next, AtomicBool::new(false));
        let connection = Arc::new(Connection { address: Some(address), ..Connection::default() });
        let (limits, permit) = (self.clone(), Some(permit));
        Ok(Arc::new(ConnectionGuard { connection, limits, address, number, active, permit }))
    }

    /// Aborts one idle connection of the address that has most of them, unless one is already closing.
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
    /// Until the first request, `task` may be aborted.
    pub fn allow_eviction(&self, task: AbortHandle) {
        self.connection.set_task(task.clone());
        let mut table = self.limits.table();
        // The first request may have arrived already, or the task may have ended.
        if self.active.load(Ordering::Relaxed) || task.is_finished() {
            return;
        }
        if let Some(usage) = table.get_mut(&self.address) {
            usage.idle.insert(self.number, task);
        }
    }

    /// A complete request has arrived.
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
        // Released first: when no connection is closing, all permits of closed connections are free.
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

    /// A connection without a request.
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
    async fn the_longest_idle_connection_is_evicted_and_active_ones_stay() {
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
        assert!(count(&limits, ONE).is_none(), "no connection is idle");
    }

    #[tokio::test]
    async fn one_idle_connection_at_a_time_is_evicted_from_the_address_with_most() {
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
