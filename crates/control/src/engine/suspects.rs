//! Tries suspects, one at a time: if this process does not survive the turn, only that run is to blame.

use std::sync::Arc;

use interlock_backend::suspects::SuspectOutcome;
use interlock_backend::verbs::AcquireSuspect;
use interlock_model::TenantId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{Engine, LeaseRequest};
use crate::journal;
use crate::wakeups::TenantQueue;

/// Threads that may be lost to turns that never end. Then this process tries no more suspects; others may.
const HANGING_MAX: usize = 8;

/// Tenants with suspects, as met by the lanes.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    tenants: TenantQueue,
    woken: Notify,
}

impl Suspects {
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
    let request = LeaseRequest { is_suspect: true, ..engine.lease_request() };
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
        Ok(SuspectOutcome::Acquired(acquired)) => {
            let run = acquired.start.run;
            let (engine, id) = (engine.clone(), tenant.clone());
            // Not behind the tasks of this process that are at the run: one of them may be what hangs.
            let turns =
                tokio::spawn(async move { engine.turns(&id, run, Some((*acquired, request)), false).await });
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
