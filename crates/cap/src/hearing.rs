//! Whether workers could have been heard: a silence proves nothing to somebody who was deaf.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// When the last one was made, if it was not the first.
    reconnected: Option<Instant>,
}

impl Hearing {
    pub(crate) fn new(client: Client) -> Self {
        let undisturbed =
            Undisturbed { since: Instant::now(), connects: connects(&client), reconnected: None };
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
        self.noticed().since.elapsed()
    }

    /// How long the connection lasts, if there was one before: workers have lost theirs with it, and what is pushed to
    /// one that is not back yet is pushed to nobody.
    pub(crate) fn reconnected_for(&self) -> Option<Duration> {
        self.noticed().reconnected.map(|at| at.elapsed())
    }

    fn noticed(&self) -> MutexGuard<'_, Undisturbed> {
        let mut undisturbed = self.undisturbed.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, connects) = (Instant::now(), connects(&self.client));
        if connects != undisturbed.connects {
            *undisturbed = Undisturbed { since: now, connects, reconnected: Some(now) };
        } else if !self.is_connected() {
            undisturbed.since = now;
        }
        undisturbed
    }
}

fn connects(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}
