//! Waits in the queue of a lock: woken when it is the request's turn; polling is only for lost wake-ups.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::locks::{AcquireLock, Acquired, Busy};
use interlock_backend::verbs::WithdrawLock;
use interlock_backend::{Effect, StoreError};
use interlock_model::time::millis;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Locks, UserLockRequest};
use crate::journal;
use crate::process::Process;
use crate::wakeups::Signal;

impl Locks {
    /// Acquires a lock, and waits in its queue for up to `wait`; `stop` ends the waiting earlier.
    ///
    /// Dropping this future leaves the queue, and releases a grant whose answer was lost.
    pub async fn acquire(
        &self,
        asked: UserLockRequest,
        stop: &CancellationToken,
    ) -> Result<Acquired, StoreError> {
        let deadline = Instant::now() + asked.wait;
        let can_ask_again = asked.request.is_some() || asked.held.is_some();
        let request = asked.request.clone().unwrap_or_else(|| self.process.identity.lock_request());
        // Made before the first try, so that no turn is missed.
        let woken = self.process.wakeups.waiter(Signal::LockTurn(asked.lock.clone(), request.clone()));
        let mut acquire = AcquireLock {
            lock: asked.lock,
            owner: asked.owner,
            mode: asked.mode,
            ttl: asked.ttl,
            request,
            call: self.process.identity.lock_token(),
            held: asked.held,
            stay: None,
            limits: self.process.settings.lock_limits,
        };
        let AcquireLock { lock, request, call, .. } = acquire.clone();
        let withdraw = WithdrawLock { lock, request, call };
        let mut attendance = Attendance { process: self.process.clone(), withdraw, is_over: false };
        let mut was_queued = false;
        loop {
            let asked_at = Instant::now();
            let stays = asked_at < deadline && !stop.is_cancelled();
            acquire.stay = stays.then_some(self.process.settings.lock_silence);
            let answer = match self.process.call(acquire.clone()).await {
                Ok(turn) => self.process.pass_on_turn(&acquire.lock, turn),
                Err(error) => {
                    // A repeat under the same name finds what it may have been granted. Without a name there is no repeat.
                    attendance.is_over = can_ask_again;
                    return Err(if was_queued { perhaps_queued(error) } else { error });
                }
            };
            match answer {
                Acquired::Waiting(busy) => {
                    was_queued = true;
                    let poll_at = deadline.min(Instant::now() + self.poll_in(&busy));
                    // Woken or not, the next try decides; stopped, it is the last.
                    let _ = stop.run_until_cancelled(timeout_at(poll_at, woken.notified())).await;
                }
                // A grant that expired before its answer arrived is no lock. How long an earlier grant lasts is not for
                // this call to say.
                Acquired::Granted(grant)
                    if grant.token == acquire.call && asked_at.elapsed() >= acquire.ttl =>
                {
                    return Err(came_too_late());
                }
                settled @ (Acquired::Granted(_) | Acquired::Refused(_) | Acquired::OverQuota { .. }) => {
                    attendance.is_over = true;
                    if let Acquired::Granted(grant) = &settled {
                        journal::lock_granted(&acquire.lock, grant);
                    }
                    return Ok(settled);
                }
            }
        }
    }

    fn poll_in(&self, busy: &Busy) -> Duration {
        // Often enough never to be taken for dead.
        let often = self.process.settings.lock_silence / 3;
        let often = if busy.position == 1 { self.process.settings.lock_poll.min(often) } else { often };
        let most = millis(often);
        // Jittered, so that those who came together do not poll together.
        let spread = Duration::from_millis(self.process.identity.between(most * 9 / 10, most));
        // A millisecond later: at the very moment the lease has not expired yet.
        let change = busy.may_change_in.map(|time| time + Duration::from_millis(1));
        change.map_or(spread, |change| change.min(spread))
    }
}

/// A try that failed leaves the request in the queue.
fn perhaps_queued(error: StoreError) -> StoreError {
    let StoreError::Unavailable { action, reason, .. } = error else { return error };
    StoreError::Unavailable { action, effect: Effect::Unknown, reason }
}

/// It was granted, and is released if it still exists.
fn came_too_late() -> StoreError {
    StoreError::Unavailable {
        action: "acquire a lock",
        effect: Effect::Unknown,
        reason: "the answer came after the lease had expired".to_owned(),
    }
}

/// One call's place in the queue. Dropped before its end, it is withdrawn in the background.
struct Attendance {
    process: Arc<Process>,
    withdraw: WithdrawLock,
    is_over: bool,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends: then the lease expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (process, withdraw) = (self.process.clone(), self.withdraw.clone());
        runtime.spawn(async move {
            match process.call(withdraw.clone()).await {
                Ok(turn) => process.pass_on_turn(&withdraw.lock, turn),
                Err(error) => tracing::warn!(%error, "lock request not withdrawn; it expires"),
            }
        });
    }
}
