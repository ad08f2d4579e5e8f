//! Whether workers could have been heard: a silence proves nothing to somebody who was deaf.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use tokio::time::Instant;

/// Since when nothing has kept this replica from hearing workers and writing down that it did.
pub(crate) struct Hearing {
    client: Client,
    undisturbed: Mutex<Undisturbed>,
}

struct Undisturbed {
    since: Instant,
    /// Connections made so far: another one means that the last has ended.
    connects: u64,
}

impl Hearing {
    pub(crate) fn new(client: Client) -> Self {
        let undisturbed = Undisturbed { since: Instant::now(), connects: connects(&client) };
        Self { client, undisturbed: Mutex::new(undisturbed) }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Something that a worker said was lost.
    pub(crate) fn disturb(&self) {
        self.undisturbed.lock().unwrap_or_else(PoisonError::into_inner).since = Instant::now();
    }

    pub(crate) fn undisturbed_for(&self) -> Duration {
        let mut undisturbed = self.undisturbed.lock().unwrap_or_else(PoisonError::into_inner);
        let connects = connects(&self.client);
        if !self.is_connected() || connects != undisturbed.connects {
            *undisturbed = Undisturbed { since: Instant::now(), connects };
        }
        undisturbed.since.elapsed()
    }
}

fn connects(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}
