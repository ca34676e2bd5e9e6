//! How many connections each address has, so that one alone cannot take every place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts no more addresses than there are connections.
#[derive(Clone)]
pub(crate) struct Peers {
    most: usize,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection of an address, as long as it is held.
pub(crate) struct Counted {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    pub fn new(most: usize) -> Peers {
        Peers { most, counts: Arc::default() }
    }

    /// `None` when the address has as many as it may.
    pub fn count(&self, address: IpAddr) -> Option<Counted> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted { peers: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_and_leaves_nothing_behind() {
        let (peers, one, other) = (Peers::new(2), IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let held = [peers.count(one).unwrap(), peers.count(one).unwrap()];
        assert!(peers.count(one).is_none());
        let counted = peers.count(other).unwrap();
        drop(held);
        assert!(peers.count(one).is_some());
        drop(counted);
        assert!(peers.counts.lock().unwrap().is_empty());
    }
}
