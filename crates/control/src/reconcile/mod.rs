//! Reconcilers: they take no input, may run at any time and any number of times, and report what they did.
//!
//! The loop of this file runs on every replica and acts on what is due. Those of [`ticking`] scan everything, slowly, on one
//! replica at a time: what they find was missed.

mod retention;
mod slots;
mod snapshot;
pub mod ticking;
mod walks;
mod wall_clock;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::events::EventsSpread;
use interlock_backend::verbs::{ExpireLeases, ExpirePermits, FindDue, FireTimers, SpreadEvents};
use interlock_backend::{StoreError, Wake};
use interlock_model::{RunId, TenantId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::journal;
use crate::process::Process;
use crate::run_deletion::RunDeletion;
use walks::Walks;
use wall_clock::WallClock;

/// Repairs what was lost or missed.
pub struct Reconcilers {
    process: Arc<Process>,
    deletion: RunDeletion,
    redelivery: Arc<dyn Redelivery>,
    wall_clock: WallClock,
    slot_walks: Walks<RunId>,
    key_walks: Walks<String>,
}

/// Delivers results again that could not reach their run.
#[async_trait]
pub trait Redelivery: Send + Sync {
    async fn deliver_due(&self, tenant: &TenantId) -> Result<Redelivered, StoreError>;
}

/// Deferred results of one tenant that were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redelivered {
    pub results: usize,
    /// More are due.
    pub has_more: bool,
}

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueReport {
    /// Runs whose retry, delay or timeout was due.
    pub runs_fired: usize,
    /// Jobs whose worker was lost.
    pub jobs_lost: usize,
    /// Permits of budgets that expired unsettled.
    pub permits_expired: usize,
    /// Results that had found their run busy, and were delivered again.
    pub results_delivered: usize,
    /// Tenants that could not be reconciled this time.
    pub tenants_failed: usize,
    /// When the next thing is due, as far as is known.
    pub next_in: Option<Duration>,
}

/// Tenants that one pass goes through, and rows of each.
const TENANTS_MAX: usize = 10_000;
const ROWS_MAX: usize = 500;

/// Deliveries of events that one pass makes for a tenant.
const SPREADS_MAX: usize = 20;

/// The shortest pause between two passes.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Reconciles until `shutdown`: at the poll's pace, or sooner where something is known to be due.
pub async fn run(reconcilers: Arc<Reconcilers>, shutdown: CancellationToken) {
    loop {
        let report = reconcilers.run_once().await.unwrap_or_else(|error| {
            warn!(%error, "could not find what is due; retrying");
            DueReport::default()
        });
        if report.runs_fired + report.jobs_lost + report.results_delivered + report.permits_expired > 0 {
            debug!(?report, "reconciled");
        }
        if shutdown.run_until_cancelled(reconcilers.pause(report.next_in)).await.is_none() {
            return;
        }
    }
}

impl Reconcilers {
    pub(crate) fn new(process: Arc<Process>, deletion: RunDeletion, redelivery: Arc<dyn Redelivery>) -> Self {
        let wall_clock = WallClock::of(&*process.clock);
        let (slot_walks, key_walks) = (Walks::default(), Walks::default());
        Self { process, deletion, redelivery, wall_clock, slot_walks, key_walks }
    }

    async fn pause(&self, next_in: Option<Duration>) {
        let poll = self.process.settings.poll;
        let next = Instant::now() + next_in.map_or(poll, |next| next.clamp(PAUSE_MIN, poll));
        tokio::time::sleep(PAUSE_MIN).await;
        // What this process writes meanwhile may be due before that.
        self.process.appointments.wait(next).await;
    }

    /// Acts on everything that is due. An error of one tenant does not stop the others.
    pub async fn run_once(&self) -> Result<DueReport, StoreError> {
        let early = self.follow_wall_clock().await.unwrap_or_else(|error| {
            warn!(%error, "could not follow the wall clock, which was set; retrying at the next poll");
            0
        });
        let due = self.process.call(FindDue { limit: TENANTS_MAX }).await?;
        let mut report = DueReport { runs_fired: early, next_in: due.next_in, ..DueReport::default() };
        for tenant in &due.timers {
            match self.fire_timers(tenant).await {
                Ok(fired) => report.runs_fired += fired,
                Err(error) => report.failed(tenant, &error),
            }
        }
        for tenant in &due.leases {
            match self.expire_leases(tenant).await {
                Ok(lost) => report.jobs_lost += lost,
                Err(error) => report.failed(tenant, &error),
            }
        }
        for tenant in &due.deferred {
            match self.redelivery.deliver_due(tenant).await {
                Ok(redelivered) => report.redelivered(redelivered),
                Err(error) => report.failed(tenant, &error),
            }
        }
        for tenant in &due.budgets {
            match self.expire_permits(tenant).await {
                Ok(expired) => report.permits_expired += expired,
                Err(error) => report.failed(tenant, &error),
            }
        }
        for tenant in &due.events {
            match self.spread_events(tenant).await {
                Ok(true) => report.next_in = Some(Duration::ZERO),
                Ok(false) => {}
                Err(error) => report.failed(tenant, &error),
            }
        }
        for tenant in due.held {
            self.process.wakeups.queue_held(tenant);
        }
        for tenant in due.children {
            self.process.wakeups.queue_wanting(tenant);
        }
        for tenant in due.ready {
            self.process.wake(Wake::RunReady { tenant });
        }
        Ok(report)
    }

    /// Makes the tenant's runs ready whose retry, delay or timeout is due. Returns how many.
    async fn fire_timers(&self, tenant: &TenantId) -> Result<usize, StoreError> {
        self.fire_timers_within(tenant, Duration::ZERO).await
    }

    async fn fire_timers_within(&self, tenant: &TenantId, ahead: Duration) -> Result<usize, StoreError> {
        let fired = self.process.call(FireTimers { tenant: tenant.clone(), ahead, limit: ROWS_MAX }).await?;
        if fired > 0 {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        Ok(fired)
    }

    /// Ends the tenant's permits whose time has come, and removes windows of budgets that are over. Returns how many
    /// expired.
    async fn expire_permits(&self, tenant: &TenantId) -> Result<usize, StoreError> {
        let wall_lead = self.process.clock.wall_lead();
        let expire = ExpirePermits { tenant: tenant.clone(), limit: ROWS_MAX, wall_lead };
        let report = self.process.call(expire).await?;
        for (budget, warning) in &report.warnings {
            journal::budget_warned(tenant, budget, warning);
        }
        if report.expired > 0 {
            journal::permits_expired(tenant, report.expired);
        }
        Ok(report.expired)
    }

    /// Delivers what is due of events that were sent to keys, and forgets those whose time is over. Returns whether there is
    /// more.
    async fn spread_events(&self, tenant: &TenantId) -> Result<bool, StoreError> {
        for _ in 0..SPREADS_MAX {
            let spread = SpreadEvents { tenant: tenant.clone(), limit: ROWS_MAX };
            let EventsSpread { runs, has_more, .. } = self.process.call(spread).await?;
            if runs > 0 {
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            }
            if !has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the tenant's stale jobs and those that no worker has claimed in time, so that their steps continue. Returns how
    /// many.
    async fn expire_leases(&self, tenant: &TenantId) -> Result<usize, StoreError> {
        let lost = self.process.call(ExpireLeases { tenant: tenant.clone(), limit: ROWS_MAX }).await?;
        journal::expired(tenant, &lost);
        let count = lost.len();
        if count > 0 {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            // A worker that took too long may still be at work.
            self.process.wake(Wake::JobsRevoked { jobs: lost });
        }
        Ok(count)
    }
}

impl DueReport {
    fn redelivered(&mut self, Redelivered { results, has_more }: Redelivered) {
        self.results_delivered += results;
        if has_more {
            self.next_in = Some(Duration::ZERO);
        }
    }

    fn failed(&mut self, tenant: &TenantId, error: &StoreError) {
        self.tenants_failed += 1;
        warn!(%tenant, %error, "could not reconcile this tenant; retrying at the next poll");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_more_deferred_results_is_due_at_once() {
        let mut report = DueReport { next_in: Some(Duration::from_secs(9)), ..DueReport::default() };
        report.redelivered(Redelivered { results: 2, has_more: false });
        assert_eq!((report.results_delivered, report.next_in), (2, Some(Duration::from_secs(9))));
        report.redelivered(Redelivered { results: 3, has_more: true });
        assert_eq!((report.results_delivered, report.next_in), (5, Some(Duration::ZERO)));
    }
}
