//! Ports for servers that tests start, stop and start again.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;

use anyhow::{Context as _, Result};

/// Below the ports that the kernel assigns to clients. Otherwise a client that retries while its server is down could
/// get the server's own port, connect to itself, and keep the server from starting again. The bus of a Redis cluster,
/// 10,000 higher, stays below them as well.
const PORTS: Range<u16> = 10_000..20_000;
const CHOICES_MAX: usize = 100;

/// No server of a test listens on this address: a listener there reserves its port.
const RESERVATIONS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A free port of 127.0.0.1. Until it is dropped, no other test takes it, also while its server is stopped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reservation: TcpListener,
}

impl Port {
    /// Reserves a random one: several processes choose at the same time.
    pub fn reserve() -> Result<Self> {
        let chosen = (0..CHOICES_MAX).map(|attempt| {
            let random = RandomState::new().hash_one(attempt) % u64::from(PORTS.end - PORTS.start);
            PORTS.start + u16::try_from(random).expect("the range of ports is one of u16")
        });
        let mut free = chosen.filter_map(|number| {
            let reservation = TcpListener::bind((RESERVATIONS, number)).ok()?;
            // Asked by connecting: a listener could live on for a moment in a child process that is just being started.
            let is_free = TcpStream::connect((Ipv4Addr::LOCALHOST, number)).is_err();
            is_free.then_some(Self { number, _reservation: reservation })
        });
        free.next().with_context(|| format!("none of {CHOICES_MAX} ports in {PORTS:?} is free"))
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_free_for_its_server_and_cannot_be_reserved_again() {
        let port = Port::reserve().unwrap();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).unwrap();
        assert!(TcpListener::bind((RESERVATIONS, port.number())).is_err());
    }
}
