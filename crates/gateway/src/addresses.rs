//! How many connections each client has open, by its address: one client must not take the places of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct Addresses {
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of one connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    client: IpAddr,
    addresses: Arc<Addresses>,
}

impl Addresses {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// A place for a connection from there, unless the client has too many.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let client = client_of(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = open.entry(client).or_default();
        if *connections >= self.max {
            return None;
        }
        *connections += 1;
        Some(Place { client, addresses: self.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connections) = open.get_mut(&self.client) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&self.client);
            }
        }
    }
}

/// One client has a whole network of version 6 to choose addresses from.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_its_share_and_no_more() {
        let addresses = Addresses::new(2);
        let first = addresses.enter(address("192.0.2.1")).unwrap();
        let _second = addresses.enter(address("::ffff:192.0.2.1")).unwrap();
        assert!(addresses.enter(address("192.0.2.1")).is_none());
        assert!(addresses.enter(address("192.0.2.2")).is_some());
        drop(first);
        assert!(addresses.enter(address("192.0.2.1")).is_some());
    }

    #[test]
    fn the_addresses_of_one_network_are_one_client() {
        let addresses = Addresses::new(1);
        let place = addresses.enter(address("2001:db8::1")).unwrap();
        assert!(addresses.enter(address("2001:db8::2")).is_none());
        assert!(addresses.enter(address("2001:db8:0:1::1")).is_some());
        drop(place);
        assert!(addresses.open.lock().unwrap().is_empty(), "nothing is kept of clients without a connection");
    }
}
