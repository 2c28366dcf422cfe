//! How many handshakes may go on at the same time, in all and for one address: anyone in the Pod network may begin one
//! and say nothing more.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts those under way by address.
#[derive(Debug, Clone)]
pub(super) struct Share {
    most: usize,
    under_way: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One handshake; it counts until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    share: Share,
    address: IpAddr,
}

impl Share {
    /// So many for each address.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            under_way: Arc::default(),
        }
    }

    /// A place for one more from there; `None` when its share is used up.
    pub(super) fn take(&self, from: SocketAddr) -> Option<Place> {
        // An IPv4 address is the same one on a socket for both families.
        let address = from.ip().to_canonical();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let count = under_way.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(under_way);
        Some(Place {
            share: self.clone(),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.share.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = under_way.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_its_share_and_no_more_and_gives_it_back() {
        let share = Share::new(2);
        let from = |text: &str| share.take(text.parse().unwrap());
        let held: Vec<_> = (0..2)
            .map(|port| from(&format!("10.0.0.1:{}", 1000 + port)).unwrap())
            .collect();
        assert!(from("10.0.0.1:9").is_none());
        assert!(from("[::ffff:10.0.0.1]:9").is_none(), "the same one");
        assert!(from("10.0.0.2:9").is_some(), "another has its own share");
        drop(held);
        assert!(
            share.under_way.lock().unwrap().is_empty(),
            "nothing is kept of those that are gone"
        );
        assert!(from("10.0.0.1:9").is_some());
    }
}
