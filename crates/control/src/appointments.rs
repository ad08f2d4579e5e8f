//! When something that this process wrote is due next.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// The earliest moment at which something that this process wrote is due: it need not wait for the next poll.
#[derive(Debug, Default)]
pub(crate) struct Appointments {
    next: Mutex<Option<Instant>>,
    is_sooner: Notify,
}

impl Appointments {
    pub(crate) fn make(&self, at: Instant) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.is_sooner.notify_one();
        }
    }

    /// Waits for the next appointment, or until `latest`, whichever comes first.
    pub(crate) async fn wait(&self, latest: Instant) {
        loop {
            let until = self.earliest().map_or(latest, |next| next.min(latest));
            if tokio::time::timeout_at(until, self.is_sooner.notified()).await.is_err() {
                break;
            }
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.take_if(|next| *next <= Instant::now());
    }

    fn earliest(&self) -> Option<Instant> {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep_until;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn waited(appointments: &Appointments) -> Duration {
        let began = Instant::now();
        appointments.wait(began + 10 * SECOND).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_when_the_earliest_is_due_and_not_for_those_that_are_not() {
        let appointments = Appointments::default();
        assert_eq!(waited(&appointments).await, 10 * SECOND);
        let began = Instant::now();
        for seconds in [30, 3, 7, 4] {
            appointments.make(began + seconds * SECOND);
        }
        assert_eq!(waited(&appointments).await, 3 * SECOND);
        assert_eq!(waited(&appointments).await, 10 * SECOND, "what was due is looked at by then");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_made_during_the_wait_is_kept_too() {
        let appointments = Appointments::default();
        let make = async {
            sleep_until(Instant::now() + SECOND).await;
            appointments.make(Instant::now() + SECOND);
        };
        let (waited, ()) = tokio::join!(waited(&appointments), make);
        assert_eq!(waited, 2 * SECOND);
    }
}
