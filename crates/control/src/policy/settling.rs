//! Takes held jobs that are due, asks about each, and writes each verdict once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::policy_holds::{AcquireHeldJobs, HeldDue, Settled};
use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use interlock_model::dispatch_policy::{BreakerState, Facts, Question};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Policy;
use super::judge::AWAY_LONGEST;
use crate::wakeups::Signal;

/// Jobs of one tenant that one step takes, and how many of them are judged at once.
const JOBS_MAX: usize = 32;

/// Batches of one tenant that are settled when the service is back, before the other tenants' turn. The rest is due later.
const BATCHES_MAX: usize = 64;
const AT_ONCE: usize = 16;

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettlingReport {
    pub released: usize,
    pub denied: usize,
    pub asked: usize,
    pub waiting: usize,
    /// Settled by another replica meanwhile, or ended.
    pub not_held: usize,
    /// Could not be settled this time; they are due again.
    pub failed: usize,
}

impl SettlingReport {
    fn count(&mut self, settled: &Result<Settled, StoreError>) {
        let counter = match settled {
            Ok(Settled::Released) => &mut self.released,
            Ok(Settled::Denied) => &mut self.denied,
            Ok(Settled::Asked) => &mut self.asked,
            Ok(Settled::Waiting(_)) => &mut self.waiting,
            Ok(Settled::NotHeld | Settled::NotReserved(_)) => &mut self.not_held,
            Err(_) => &mut self.failed,
        };
        *counter += 1;
    }

    /// No longer held.
    fn let_go(&self) -> usize {
        self.released + self.denied + self.asked + self.not_held
    }
}

/// Settles held jobs until `shutdown`: woken by dispatches, and by the reconcilers when a job is due.
pub(crate) async fn run(policy: Arc<Policy>, shutdown: CancellationToken) {
    let woken = policy.process.wakeups.waiter(Signal::JobsHeld);
    let work = async {
        loop {
            policy.run_once().await;
            let pause = policy.configured().service.as_ref().map(|service| service.pause);
            let heard = woken.notified();
            match pause.filter(|_| !policy.waiting().is_empty()) {
                // A tenant waits for the service: probe it at its pause.
                Some(pause) => drop(tokio::time::timeout(pause, heard).await),
                None => heard.await,
            }
        }
    };
    shutdown.run_until_cancelled(work).await;
}

/// While the service is unreachable, one waiting job asks it now and then.
async fn probe(policy: &Policy, report: &mut SettlingReport) {
    let is_due = policy.with_breaker(|breaker| breaker.state(policy.process.now())) != BreakerState::Open;
    let tenant = policy.waiting().first().filter(|_| is_due).cloned();
    let Some(tenant) = tenant else { return };
    if settle(policy, &tenant, (AWAY_LONGEST, 1), report).await == 0 {
        // None of its jobs waits any more.
        policy.waiting().remove(&tenant);
    }
}

/// Judges and settles the tenant's held jobs that are due within `ahead`. Returns how many there were.
async fn settle(
    policy: &Policy,
    tenant: &TenantId,
    (ahead, limit): (Duration, usize),
    report: &mut SettlingReport,
) -> usize {
    let in_progress = in_progress(policy);
    let take = AcquireHeldJobs { tenant: tenant.clone(), ahead, in_progress, limit };
    let due = match policy.process.call(take).await {
        Ok(due) => due,
        Err(error) => {
            warn!(%tenant, %error, "could not acquire held jobs; retrying at the next poll");
            return 0;
        }
    };
    let count = due.len();
    let mut judged = stream::iter(due).map(|due| policy.settle_one(tenant, due)).buffer_unordered(AT_ONCE);
    while let Some(settled) = judged.next().await {
        report.count(&settled);
    }
    count
}

/// How long acquired jobs stay with this replica: long enough to ask about the whole batch.
fn in_progress(policy: &Policy) -> Duration {
    const AT_LEAST: Duration = Duration::from_secs(3);
    let rounds = u32::try_from(JOBS_MAX / AT_ONCE).unwrap_or(u32::MAX);
    let service = policy.configured().service.as_ref();
    AT_LEAST + service.map_or(Duration::ZERO, |service| service.timeout * rounds)
}

impl Policy {
    /// Settles what is known to be due. An error of one tenant or one job does not stop the others.
    pub async fn run_once(&self) -> SettlingReport {
        let mut report = SettlingReport::default();
        while let Some(tenant) = self.process.wakeups.next_held() {
            let settled = settle(self, &tenant, (Duration::ZERO, JOBS_MAX), &mut report).await;
            if settled == JOBS_MAX {
                // There are more, after the others' turn.
                self.process.wakeups.queue_held(tenant);
            }
        }
        probe(self, &mut report).await;
        // Once the service is back, the jobs that waited for it are settled at once.
        let is_back = self.is_back.swap(false, Ordering::Relaxed);
        let waiting = if is_back { std::mem::take(&mut *self.waiting()) } else { BTreeSet::new() };
        for tenant in waiting {
            for _ in 0..BATCHES_MAX {
                let let_go = report.let_go();
                let settled = settle(self, &tenant, (AWAY_LONGEST, JOBS_MAX), &mut report).await;
                // Jobs that must wait again are due later; asking at once would never end.
                if settled < JOBS_MAX || report.let_go() == let_go {
                    break;
                }
            }
        }
        if report != SettlingReport::default() {
            debug!(?report, "settled held jobs");
        }
        report
    }

    async fn settle_one(&self, tenant: &TenantId, due: HeldDue) -> Result<Settled, StoreError> {
        let budget = due.job.budget.as_ref();
        let settled = match budget.filter(|_| due.hold.reason.is_of_budget()) {
            Some(budget) => self.settle_budget(tenant, (&due, budget)).await,
            None => self.settle_by_policy(tenant, &due).await,
        };
        let job = &due.job;
        match &settled {
            // The policy has let it go, and its budget is next.
            Ok(Settled::Released) if budget.is_some() && !due.hold.reason.is_of_budget() => {
                self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
            }
            Ok(Settled::Released) => {
                if due.hold.place.is_some() {
                    // It has left the queue of its budget, and the next may go on.
                    self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
                }
                self.process.announce_jobs(tenant, [job.topic.clone()]);
                self.process.wake(Wake::RunChanged { run: job.id.run });
            }
            Ok(Settled::Denied | Settled::Asked) => {
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            }
            Ok(Settled::Waiting(_)) => self.process.wake(Wake::RunChanged { run: job.id.run }),
            Ok(Settled::NotHeld | Settled::NotReserved(_)) => {}
            Err(error) => warn!(job = %job.id, %error, "held job not settled; it is due again"),
        }
        settled
    }

    async fn settle_by_policy(&self, tenant: &TenantId, due: &HeldDue) -> Result<Settled, StoreError> {
        let job = &due.job;
        let facts = Facts { tenant, topic: &job.topic, meta: &job.meta };
        let judgement = self.judge(facts, &Question::of_job(tenant, job)).await;
        if judgement.is_fail_closed() {
            self.waiting().insert(tenant.clone());
        }
        let settled = self.settle_as(tenant, due, judgement.settlement(due)).await;
        if matches!(settled, Ok(Settled::Released)) && judgement.is_fail_open() {
            self.fail_opens.fetch_add(1, Ordering::Relaxed);
        }
        settled
    }
}
