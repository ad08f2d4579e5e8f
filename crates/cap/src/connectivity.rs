//! Whether this replica could have received heartbeats: without a connection, silence proves nothing about a worker.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use tokio::time::Instant;

/// Since when this replica has received and recorded all heartbeats.
pub(crate) struct Connectivity {
    client: Client,
    current: Mutex<CurrentConnection>,
}

struct CurrentConnection {
    complete_since: Instant,
    /// Connections made so far: another one means that the last has ended.
    connects: u64,
    /// When the last one was made, if it was not the first.
    reconnected: Option<Instant>,
}

impl Connectivity {
    pub(crate) fn new(client: Client) -> Self {
        let (complete_since, connects) = (Instant::now(), connects(&client));
        let current = CurrentConnection { complete_since, connects, reconnected: None };
        Self { client, current: Mutex::new(current) }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// A heartbeat or handshake was received and not recorded.
    pub(crate) fn heartbeat_lost(&self) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).complete_since = Instant::now();
    }

    pub(crate) fn complete_for(&self) -> Duration {
        self.updated().complete_since.elapsed()
    }

    /// How long the connection has lasted, if there was one before. The workers have lost theirs too, and a job that is
    /// pushed to a worker that has not reconnected is lost.
    pub(crate) fn reconnected_for(&self) -> Option<Duration> {
        self.updated().reconnected.map(|at| at.elapsed())
    }

    fn updated(&self) -> MutexGuard<'_, CurrentConnection> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, connects) = (Instant::now(), connects(&self.client));
        if connects != current.connects {
            *current = CurrentConnection { complete_since: now, connects, reconnected: Some(now) };
        } else if !self.is_connected() {
            current.complete_since = now;
        }
        current
    }
}

fn connects(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}
