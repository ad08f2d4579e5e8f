//! The stage that settles held jobs: takes what is due, asks, and writes each verdict once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::holds::{HeldDue, Settled, TakeHeld};
use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use interlock_model::dispatch_policy::{BreakerState, Facts, Question};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::judge::AWAY_LONGEST;
use crate::service::Control;
use crate::wakeups::Signal;

/// Jobs of one tenant that one step takes, and how many of them are judged at once.
const JOBS_MAX: usize = 32;

/// Batches of one tenant that are let go when the service is back, before the others' turn. The rest is due by itself.
const BATCHES_MAX: usize = 64;
const AT_ONCE: usize = 16;

/// What one look did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    pub released: usize,
    pub denied: usize,
    pub asked: usize,
    pub waiting: usize,
    /// Settled by somebody else meanwhile, or ended.
    pub gone: usize,
    /// Could not be settled this time; they are due again.
    pub failed: usize,
}

impl Report {
    fn count(&mut self, settled: &Result<Settled, StoreError>) {
        let counter = match settled {
            Ok(Settled::Released) => &mut self.released,
            Ok(Settled::Denied) => &mut self.denied,
            Ok(Settled::Asked) => &mut self.asked,
            Ok(Settled::Waiting(_)) => &mut self.waiting,
            Ok(Settled::NotHeld) => &mut self.gone,
            Err(_) => &mut self.failed,
        };
        *counter += 1;
    }

    /// Held no more.
    fn let_go(&self) -> usize {
        self.released + self.denied + self.asked + self.gone
    }

    fn total(&self) -> usize {
        self.released + self.denied + self.asked + self.waiting + self.gone + self.failed
    }
}

/// Settles what is held until `shutdown`: woken by dispatches, and by the reconcilers where something has come due.
pub async fn run(control: Arc<Control>, shutdown: CancellationToken) {
    let woken = control.wakeups.waiter(Signal::JobsHeld);
    let work = async {
        loop {
            run_once(&control).await;
            let pause = control.settings.dispatch_policy.service.as_ref().map(|service| service.pause);
            let heard = woken.notified();
            match pause.filter(|_| control.dispatch_policy.first_waiting().is_some()) {
                // Somebody waits for the service: whether it is back must not be left to chance.
                Some(pause) => drop(tokio::time::timeout(pause, heard).await),
                None => heard.await,
            }
        }
    };
    shutdown.run_until_cancelled(work).await;
}

/// Settles what is known to be due. One tenant's trouble, or one job's, does not stop the others.
pub async fn run_once(control: &Control) -> Report {
    let mut report = Report::default();
    while let Some(tenant) = control.wakeups.next_held() {
        let settled = settle(control, &tenant, (Duration::ZERO, JOBS_MAX), &mut report).await;
        if settled == JOBS_MAX {
            // There are more, after the others' turn.
            control.wakeups.remember_held(tenant);
        }
    }
    probe(control, &mut report).await;
    for tenant in control.dispatch_policy.take_waiting_if_back() {
        for _ in 0..BATCHES_MAX {
            let let_go = report.let_go();
            let settled = settle(control, &tenant, (AWAY_LONGEST, JOBS_MAX), &mut report).await;
            // Who is told to wait again is due by itself; asking at once would be asking for ever.
            if settled < JOBS_MAX || report.let_go() == let_go {
                break;
            }
        }
    }
    if report.total() > 0 {
        debug!(?report, "settled held jobs");
    }
    report
}

/// While the service is away, one job that waits for it asks now and then.
async fn probe(control: &Control, report: &mut Report) {
    let state = &control.dispatch_policy;
    let is_due = state.with_breaker(|breaker| breaker.state(control.clock.now())) != BreakerState::Open;
    let Some(tenant) = state.first_waiting().filter(|_| is_due) else { return };
    if settle(control, &tenant, (AWAY_LONGEST, 1), report).await == 0 {
        // Nothing of it waits any more.
        state.forget_waiting(&tenant);
    }
}

/// Judges and settles the tenant's held jobs that are due within `ahead`. Returns how many there were.
async fn settle(
    control: &Control,
    tenant: &TenantId,
    (ahead, limit): (Duration, usize),
    report: &mut Report,
) -> usize {
    let in_hand = in_hand(control);
    let take = TakeHeld { tenant: tenant.clone(), ahead, in_hand, limit };
    let due = match control.store.take_held(&take).await {
        Ok(due) => due,
        Err(error) => {
            warn!(%tenant, %error, "cannot take held jobs; trying again at the next look");
            return 0;
        }
    };
    let count = due.len();
    let mut judged = stream::iter(due).map(|due| control.settle_one(tenant, due)).buffer_unordered(AT_ONCE);
    while let Some(settled) = judged.next().await {
        report.count(&settled);
    }
    count
}

/// How long a job is left to whoever took it: so long that all that was taken with it can be asked about.
fn in_hand(control: &Control) -> Duration {
    const AT_LEAST: Duration = Duration::from_secs(3);
    let rounds = u32::try_from(JOBS_MAX / AT_ONCE).unwrap_or(u32::MAX);
    let service = control.settings.dispatch_policy.service.as_ref();
    AT_LEAST + service.map_or(Duration::ZERO, |service| service.timeout * rounds)
}

impl Control {
    async fn settle_one(&self, tenant: &TenantId, due: HeldDue) -> Result<Settled, StoreError> {
        let job = &due.job;
        let facts = Facts { tenant, topic: &job.topic, meta: &job.meta };
        let judgement = self.judge(facts, &Question::of_job(tenant, job)).await;
        if judgement.is_fail_closed() {
            self.dispatch_policy.note_waiting(tenant);
        }
        let settled = self.store.settle_held(tenant, &job.id, &judgement.settlement(&due)).await;
        match &settled {
            Ok(Settled::Released) => {
                if judgement.is_fail_open() {
                    self.dispatch_policy.fail_opens.fetch_add(1, Ordering::Relaxed);
                }
                self.announce_jobs(tenant, vec![job.topic.clone()]);
                self.wake(Wake::RunChanged { run: job.id.run });
            }
            Ok(Settled::Denied | Settled::Asked) => self.wake(Wake::RunReady { tenant: tenant.clone() }),
            Ok(Settled::Waiting(_)) => self.wake(Wake::RunChanged { run: job.id.run }),
            Ok(Settled::NotHeld) => {}
            Err(error) => warn!(job = %job.id, %error, "a held job could not be settled; it is due again"),
        }
        settled
    }

    /// Jobs that went on because the policy service was away, since the process began.
    #[must_use]
    pub fn fail_opens(&self) -> u64 {
        self.dispatch_policy.fail_opens.load(Ordering::Relaxed)
    }
}
