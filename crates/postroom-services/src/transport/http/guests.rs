//! Counts the connections of each address, and tells requests where they come from.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;

/// The connections by the address they come from. Clones share them.
#[derive(Clone)]
pub(super) struct Guests {
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

/// A connection that counts until it is dropped.
pub(super) struct Guest {
    of: Guests,
    from: Option<IpAddr>,
}

/// The address that a request comes from.
#[derive(Clone, Copy)]
struct CameFrom(IpAddr);

/// Returns the address that a request comes from, if our own listener accepted it.
pub(crate) fn came_from(request: &Extensions) -> Option<IpAddr> {
    request.get().map(|CameFrom(address)| *address)
}

impl Guests {
    pub(super) fn new(most: usize) -> Self {
        Self { by_address: Arc::default(), most }
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection, or returns `None` when there are too many from that address. Clients of a local
    /// socket have no address and are not counted.
    pub(super) fn enter(&self, from: Option<IpAddr>) -> Option<Guest> {
        let from = from.map(network);
        if let Some(from) = from {
            let mut by_address = self.by_address();
            let count = by_address.entry(from).or_default();
            if *count >= self.most {
                return None;
            }
            *count += 1;
        }
        Some(Guest { of: self.clone(), from })
    }
}

/// Returns the network of an IPv6 address, because a client with one such address has a whole network of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

impl Guest {
    /// Notes in a request where it comes from.
    pub(super) fn mark(&self, request: &mut Extensions) {
        if let Some(from) = self.from {
            request.insert(CameFrom(from));
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(from) = self.from else { return };
        let mut by_address = self.of.by_address();
        if let Some(count) = by_address.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let (guests, here) = (Guests::new(2), "127.0.0.1".parse().unwrap());
        let held = [guests.enter(Some(here)), guests.enter(Some(here))];
        assert!(held.iter().all(Option::is_some) && guests.enter(Some(here)).is_none());
        assert!(guests.enter(Some("127.0.0.2".parse().unwrap())).is_some());
        assert!((0..5).all(|_| guests.enter(None).is_some()));
        drop(held);
        assert!(guests.enter(Some("::ffff:127.0.0.1".parse().unwrap())).is_some());
        assert!(guests.by_address().is_empty());
        let _one =
            [guests.enter(Some("2001:db8::1".parse().unwrap())), guests.enter(Some("2001:db8::2".parse().unwrap()))];
        assert!(guests.enter(Some("2001:db8::3".parse().unwrap())).is_none(), "one network");
    }
}
