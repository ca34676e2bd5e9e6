//! How many connections each address has, so that one alone cannot take every place, and which of them have never asked
//! for anything: those make room for others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit as Place;
use tokio::task::AbortHandle;

/// Counts no more addresses than there are connections.
#[derive(Clone)]
pub(crate) struct Peers {
    most: usize,
    table: Arc<Mutex<HashMap<IpAddr, Peer>>>,
}

#[derive(Default)]
struct Peer {
    connections: usize,
    next: u64,
    /// Those without a whole request so far, the oldest first.
    silent: BTreeMap<u64, AbortHandle>,
    /// Those that were cut and are not gone yet: they count no more, or a second one would be cut in their stead.
    leaving: BTreeSet<u64>,
}

/// One connection of an address, as long as it is held.
pub(crate) struct Counted {
    peers: Peers,
    address: IpAddr,
    number: u64,
    spoke: AtomicBool,
    place: Option<Place>,
}

impl Peers {
    pub fn new(most: usize) -> Peers {
        Peers { most, table: Arc::default() }
    }

    /// Gives the place back when the address has as many as it may and each of them has asked for something; else the
    /// one that has been silent longest makes room.
    pub fn count(&self, address: IpAddr, place: Place) -> Result<Arc<Counted>, Place> {
        let mut table = self.table();
        let peer = table.entry(address).or_default();
        if peer.connections - peer.leaving.len() >= self.most && !peer.cut_oldest() {
            return Err(place);
        }
        peer.connections += 1;
        peer.next += 1;
        let (number, spoke) = (peer.next, AtomicBool::new(false));
        Ok(Arc::new(Counted { peers: self.clone(), address, number, spoke, place: Some(place) }))
    }

    /// Cuts one silent connection of the address that has most of them, unless one is about to leave anyway.
    pub fn make_room(&self) {
        let mut table = self.table();
        if table.values().any(|peer| !peer.leaving.is_empty()) {
            return;
        }
        if let Some(peer) = table.values_mut().max_by_key(|peer| peer.silent.len()) {
            peer.cut_oldest();
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, Peer>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    fn cut_oldest(&mut self) -> bool {
        let Some((number, task)) = self.silent.pop_first() else { return false };
        task.abort();
        self.leaving.insert(number)
    }
}

impl Counted {
    /// Until it has asked for something, `task` may be cut.
    pub fn may_be_cut(&self, task: AbortHandle) {
        let mut table = self.peers.table();
        // It may have been quicker than we are; and one that is over already leaves nothing to cut.
        if self.spoke.load(Ordering::Relaxed) || task.is_finished() {
            return;
        }
        if let Some(peer) = table.get_mut(&self.address) {
            peer.silent.insert(self.number, task);
        }
    }

    /// A whole request has come.
    pub fn speaks(&self) {
        if self.spoke.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.peers.table();
        self.spoke.store(true, Ordering::Relaxed);
        if let Some(peer) = table.get_mut(&self.address) {
            peer.silent.remove(&self.number);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // First, so that whoever finds no one leaving finds the place free.
        drop(self.place.take());
        let mut table = self.peers.table();
        if let Some(peer) = table.get_mut(&self.address) {
            peer.silent.remove(&self.number);
            peer.leaving.remove(&self.number);
            peer.connections -= 1;
            if peer.connections == 0 {
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

    fn count(peers: &Peers, address: IpAddr) -> Option<Arc<Counted>> {
        let place = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
        peers.count(address, place).ok()
    }

    /// A connection that says nothing.
    fn silent(peers: &Peers, address: IpAddr) -> (Arc<Counted>, tokio::task::JoinHandle<()>) {
        let counted = count(peers, address).unwrap();
        let held = counted.clone();
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        counted.may_be_cut(task.abort_handle());
        (counted, task)
    }

    #[test]
    fn each_address_has_its_own_count_and_leaves_nothing_behind() {
        let peers = Peers::new(2);
        let held = [count(&peers, ONE).unwrap(), count(&peers, ONE).unwrap()];
        assert!(count(&peers, ONE).is_none());
        let counted = count(&peers, OTHER).unwrap();
        drop(held);
        assert!(count(&peers, ONE).is_some());
        drop(counted);
        assert!(peers.table().is_empty());
    }

    #[tokio::test]
    async fn the_longest_silent_makes_room_and_whoever_spoke_stays() {
        let peers = Peers::new(3);
        let (first, second, third) = (silent(&peers, ONE), silent(&peers, ONE), silent(&peers, ONE));
        first.0.speaks();
        let fourth = count(&peers, ONE).unwrap();
        assert!(second.1.await.unwrap_err().is_cancelled());
        drop(second.0);
        assert!(!first.1.is_finished() && !third.1.is_finished());
        third.0.speaks();
        fourth.speaks();
        assert!(count(&peers, ONE).is_none(), "each of them has asked for something");
    }

    #[tokio::test]
    async fn the_address_with_most_silent_connections_makes_room_and_only_one_at_a_time() {
        let peers = Peers::new(9);
        let (first, second, other) = (silent(&peers, ONE), silent(&peers, ONE), silent(&peers, OTHER));
        peers.make_room();
        peers.make_room();
        assert!(first.1.await.unwrap_err().is_cancelled());
        assert!(!second.1.is_finished() && !other.1.is_finished());
        drop(first.0);
        peers.make_room();
        assert_eq!(peers.table().values().map(|peer| peer.leaving.len()).sum::<usize>(), 1);
    }
}
