//! Standing in line for a lock: woken when it is one's turn; looking by oneself is only for lost wake-ups.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::locks::{Acquire, Acquired, Busy};
use interlock_backend::{Bus, Effect, Store, StoreError, Wake};
use interlock_model::lock::LockName;
use interlock_model::time::millis;
use interlock_model::{LockRequest, LockToken};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::AskForLock;
use crate::journal;
use crate::service::Control;
use crate::wakeups::Signal;

impl Control {
    /// Asks for a lock, and stands in line for up to its `wait`; `stop` ends the waiting earlier.
    ///
    /// Whoever drops this future leaves the line, and gives back what was granted without anybody hearing of it.
    pub async fn acquire_lock(
        &self,
        asked: AskForLock,
        stop: &CancellationToken,
    ) -> Result<Acquired, StoreError> {
        let deadline = Instant::now() + asked.wait;
        let can_ask_again = asked.request.is_some() || asked.held.is_some();
        let request = asked.request.clone().unwrap_or_else(|| self.identity.lock_request());
        // Made before the first look, so that a turn that comes after the look is heard.
        let woken = self.wakeups.waiter(Signal::LockTurn(asked.lock.clone(), request.clone()));
        let mut attendance = Attendance {
            store: self.store.clone(),
            bus: self.bus.clone(),
            lock: asked.lock.clone(),
            request: request.clone(),
            call: self.identity.lock_token(),
            is_over: false,
        };
        let mut was_in_line = false;
        loop {
            let asked_at = Instant::now();
            let stays = asked_at < deadline && !stop.is_cancelled();
            let acquire = Acquire {
                lock: asked.lock.clone(),
                owner: asked.owner.clone(),
                mode: asked.mode,
                ttl: asked.ttl,
                request: request.clone(),
                call: attendance.call.clone(),
                held: asked.held.clone(),
                stay: stays.then_some(self.settings.lock_silence),
                limits: self.settings.lock_limits,
            };
            let answer = match self.store.acquire(&acquire).await {
                Ok(turn) => self.pass_on_turn(&asked.lock, turn),
                Err(error) => {
                    // Asked again under the same name, it finds what it may have got. Without a name nobody can.
                    attendance.is_over = can_ask_again;
                    return Err(if was_in_line { perhaps_in_line(error) } else { error });
                }
            };
            match answer {
                Acquired::Waiting(busy) => {
                    was_in_line = true;
                    let look_again = deadline.min(Instant::now() + self.look_again_in(&busy));
                    // Woken or not, the next look tells; stopped, it is the last.
                    let _ = stop.run_until_cancelled(timeout_at(look_again, woken.notified())).await;
                }
                // What this call was granted, and has run out on its way here, is no lock. How long one lasts that was
                // granted before is not this call's to say.
                Acquired::Granted(grant)
                    if grant.token == attendance.call && asked_at.elapsed() >= asked.ttl =>
                {
                    return Err(came_too_late());
                }
                settled @ (Acquired::Granted(_) | Acquired::Refused(_) | Acquired::OverQuota { .. }) => {
                    attendance.is_over = true;
                    if let Acquired::Granted(grant) = &settled {
                        journal::lock_granted(&asked.lock, grant);
                    }
                    return Ok(settled);
                }
            }
        }
    }

    fn look_again_in(&self, busy: &Busy) -> Duration {
        // Often enough never to be taken for gone.
        let often = self.settings.lock_silence / 3;
        let often = if busy.position == 1 { self.settings.lock_poll.min(often) } else { often };
        let most = millis(often);
        // Spread, so that those who came together do not look together for ever.
        let spread = Duration::from_millis(self.identity.between(most * 9 / 10, most));
        // A moment later than the store's: at the very millisecond it has not run out yet.
        let change = busy.may_change_in.map(|time| time + Duration::from_millis(1));
        change.map_or(spread, |change| change.min(spread))
    }
}

/// A look that failed leaves the request where it stood.
fn perhaps_in_line(error: StoreError) -> StoreError {
    let StoreError::Unavailable { action, reason, .. } = error else { return error };
    StoreError::Unavailable { action, effect: Effect::Unknown, reason }
}

/// It was granted, and is given back if it is still there.
fn came_too_late() -> StoreError {
    StoreError::Unavailable {
        action: "acquire a lock",
        effect: Effect::Unknown,
        reason: "the answer came after the lease had run out".to_owned(),
    }
}

/// One call's place in line. Dropped before its end, it is given up, on nobody's time but its own.
struct Attendance {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    lock: LockName,
    request: LockRequest,
    call: LockToken,
    is_over: bool,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends: then the lease ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, bus, lock) = (self.store.clone(), self.bus.clone(), self.lock.clone());
        let (request, call) = (self.request.clone(), self.call.clone());
        runtime.spawn(async move {
            match store.withdraw(&lock, &request, &call).await {
                Ok(turn) => {
                    if let Some(request) = turn.next {
                        bus.wake(Wake::LockTurn { lock, request });
                    }
                }
                Err(error) => tracing::warn!(%error, "a place in line was not given up; it ends by itself"),
            }
        });
    }
}
