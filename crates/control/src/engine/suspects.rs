//! Tries suspects, one at a time: if this process does not survive the turn, only that run is to blame.

use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::suspects::{Suspect, SuspectOutcome};
use interlock_backend::verbs::AcquireSuspect;
use interlock_model::run::SUSPECT_FROM;
use interlock_model::{RunId, TenantId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{Engine, LeaseRequest};
use crate::bounded::Bounded;
use crate::journal;
use crate::wakeups::TenantQueue;

/// Threads that may be lost to turns that never end. Then this process tries no more suspects; others may.
const HANGING_MAX: usize = 64;

/// Suspects whose last try this process remembers.
const SURVIVED_MAX: usize = 1_000;

pub(super) struct Suspects {
    /// Those with suspects, as met by the lanes.
    tenants: TenantQueue,
    woken: Notify,
    /// Suspects whose last turn this process has come out of, whether or not it could be written. A store that is too
    /// slow to take it is not their fault.
    survived: Mutex<Bounded<RunId, ()>>,
}

impl Default for Suspects {
    fn default() -> Self {
        let survived = Mutex::new(Bounded::new(SURVIVED_MAX));
        Self { tenants: TenantQueue::default(), woken: Notify::default(), survived }
    }
}

impl Suspects {
    /// This process has come out of a turn of the suspect.
    pub(super) fn survived(&self, run: RunId) {
        self.survived.lock().unwrap_or_else(PoisonError::into_inner).insert(run, ());
    }

    /// Which try in a row the next is. Each must be survived anew.
    fn next_try(&self, run: RunId, tries: u32) -> u32 {
        let survived = self.survived.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        if survived.is_some() { SUSPECT_FROM } else { tries + 1 }
    }

    pub(super) fn met(&self, tenant: &TenantId) {
        self.tenants.push(tenant.clone());
        self.woken.notify_one();
    }
}

/// Tries suspects of all tenants in turn until `shutdown`.
pub(super) async fn run(engine: Arc<Engine>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let Some(tenant) = engine.suspects.tenants.next() else {
            let _ = shutdown.run_until_cancelled(engine.suspects.woken.notified()).await;
            continue;
        };
        if engine.computer.hanging() >= HANGING_MAX {
            error!(%tenant, "too many turns hang: restart this process; it tries no more suspects");
        } else if try_one(&engine, &tenant).await {
            // There may be more, and other tenants come first.
            engine.suspects.tenants.push(tenant);
        }
    }
}

/// Tries a suspect of the tenant, or quarantines it. Whether there was one.
async fn try_one(engine: &Arc<Engine>, tenant: &TenantId) -> bool {
    let request = engine.lease_request();
    let settings = &engine.process.settings;
    let acquire = AcquireSuspect {
        tenant: tenant.clone(),
        holder: engine.process.instance.clone(),
        lease: request.lease,
        tries_max: settings.turn_tries_max,
        dead_letters_max: settings.dead_letters_max,
    };
    match engine.process.call(acquire).await {
        Ok(SuspectOutcome::Nothing) => false,
        Ok(SuspectOutcome::Quarantined(run)) => {
            journal::quarantined(tenant, run, settings.turn_tries_max);
            engine.process.counts.update(|counted| counted.runs_quarantined += 1);
            true
        }
        Ok(SuspectOutcome::Acquired(suspect)) => {
            let Suspect { run: acquired, tries } = *suspect;
            let run = acquired.start.run;
            let try_number = Some(engine.suspects.next_try(run, tries));
            let request = LeaseRequest { try_number, ..request };
            let (engine, id) = (engine.clone(), tenant.clone());
            // Not behind the tasks of this process that are at the run: one of them may be what hangs.
            let turns =
                tokio::spawn(async move { engine.turns(&id, run, Some((acquired, request)), false).await });
            match turns.await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => warn!(%tenant, %run, %error, "turn failed; the run stays ready"),
                Err(error) => error!(%tenant, %run, %error, "turn panicked"),
            }
            true
        }
        Err(error) => {
            warn!(%tenant, %error, "could not acquire a suspect; retrying at the next poll");
            false
        }
    }
}
