//! The connection to one master, made again in the background whenever it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::checks;
use super::facts::Identity;
use super::finder::{Finder, Found};
use super::live::Live;
use super::settings::{ConnectSettings, Durability};

/// The door to one master. Dropping it ends the task that keeps it.
pub(super) struct MasterConnection {
    live: watch::Receiver<Option<Live>>,
    connection_wait: Duration,
    store_changes: Arc<AtomicU64>,
    _keeper: AbortOnDropHandle<()>,
}

impl MasterConnection {
    pub(super) fn keep(
        finder: Finder,
        first: Found,
        noticed: Arc<Notify>,
        settings: &ConnectSettings,
    ) -> Self {
        let store_changes = Arc::new(AtomicU64::new(0));
        let (cell, live) = watch::channel(Some(first.live));
        let keeper = Keeper {
            finder,
            cell,
            noticed,
            identity: first.facts.identity,
            store_changes: Arc::clone(&store_changes),
            pause: Pause::new(settings),
            durability: settings.durability,
        };
        Self {
            live,
            connection_wait: settings.connection_wait,
            store_changes,
            _keeper: AbortOnDropHandle::new(tokio::spawn(keeper.run())),
        }
    }

    /// The connection, waiting a moment for one that is being made again.
    pub(super) async fn live(&self) -> Option<Live> {
        let mut cell = self.live.clone();
        let usable = cell.wait_for(|live| live.as_ref().is_some_and(Live::is_usable));
        tokio::time::timeout(self.connection_wait, usable).await.ok()?.ok()?.clone()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.live.borrow().as_ref().is_some_and(Live::is_usable)
    }

    pub(super) fn store_changes(&self) -> u64 {
        self.store_changes.load(Ordering::Acquire)
    }
}

/// Replaces a broken connection. There is one, so there is never more than one attempt at a time.
struct Keeper {
    finder: Finder,
    cell: watch::Sender<Option<Live>>,
    noticed: Arc<Notify>,
    identity: Identity,
    store_changes: Arc<AtomicU64>,
    pause: Pause,
    durability: Durability,
}

impl Keeper {
    async fn run(mut self) {
        loop {
            let connected_at = Instant::now();
            self.until_broken().await;
            self.pause.begin(connected_at.elapsed());
            self.cell.send_replace(None);
            let found = self.find_again().await;
            self.compare(&found.facts.identity);
            checks::warn_if_not_fsync(&found, self.durability).await;
            self.cell.send_replace(Some(found.live));
        }
    }

    /// Waits until the connection is closed, leads to the wrong server, or does not answer a PING: one that was cut
    /// without a word would else swallow commands for ever.
    async fn until_broken(&self) {
        let live = self.cell.borrow().clone();
        while let Some(live) = live.as_ref().filter(|live| live.is_usable()) {
            self.noticed.notified().await;
            if live.take_suspicion()
                && live.send(&redis::cmd("PING")).await.is_err_and(|error| error.is_timeout())
            {
                tracing::warn!("Redis does not answer on this connection; a new one is made");
                return;
            }
        }
    }

    async fn find_again(&mut self) -> Found {
        loop {
            tokio::time::sleep(self.pause.next()).await;
            match self.finder.find(&self.noticed).await {
                Ok(found) => {
                    tracing::info!(host = %found.host, attempts = self.pause.attempts, "connected to Redis again");
                    return found;
                }
                Err(error) if self.pause.attempts == 1 => tracing::warn!(%error, "no connection to Redis"),
                Err(error) => {
                    tracing::debug!(%error, attempts = self.pause.attempts, "still no connection to Redis");
                }
            }
        }
    }

    fn compare(&mut self, identity: &Identity) {
        if self.identity != *identity {
            tracing::warn!(?identity, "Redis came back as another store");
            self.identity = identity.clone();
            self.store_changes.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Full jitter: a random time up to a bound that doubles, so that many processes do not come back in step.
struct Pause {
    base: Duration,
    cap: Duration,
    attempts: u32,
}

impl Pause {
    fn new(settings: &ConnectSettings) -> Self {
        let (base, cap) = (settings.reconnect_base, settings.reconnect_cap);
        Self { base, cap, attempts: 0 }
    }

    /// A connection that broke at once continues counting: a server that accepts and hangs up is not called in a loop.
    fn begin(&mut self, lived: Duration) {
        if lived >= self.cap {
            self.attempts = 0;
        }
    }

    fn next(&mut self) -> Duration {
        let bound = self.bound();
        self.attempts = self.attempts.saturating_add(1);
        bound.mul_f64(rand::rng().random_range(0.0..=1.0))
    }

    fn bound(&self) -> Duration {
        self.base.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX)).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause() -> Pause {
        Pause::new(&ConnectSettings::new("redis://host".parse().unwrap()))
    }

    #[test]
    fn the_pause_is_anything_up_to_a_bound_that_doubles_up_to_the_cap() {
        let mut pause = pause();
        for expected in [20, 40, 80, 160, 320, 640, 1000, 1000] {
            let bound = pause.bound();
            assert_eq!(bound, Duration::from_millis(expected));
            assert!(pause.next() <= bound);
        }
        pause.attempts = u32::MAX;
        assert_eq!(pause.bound(), Duration::from_secs(1));
        assert!(pause.next() <= pause.cap);
    }

    #[test]
    fn only_a_connection_that_lasted_starts_the_pauses_over() {
        let mut pause = pause();
        pause.attempts = 4;
        pause.begin(Duration::from_millis(999));
        assert_eq!(pause.attempts, 4);
        pause.begin(Duration::from_secs(1));
        assert_eq!(pause.attempts, 0);
    }
}
