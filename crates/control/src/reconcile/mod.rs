//! Reconcilers: they take no input, may run at any time and any number of times, and tell what they did.
//!
//! The loop of this file runs on every replica and looks at what is due. Those of [`ticking`] go through everything,
//! slowly, on one replica at a time: what they find was missed.

mod appointments;
mod drifted_slots;
mod due_timers;
mod every_tenant;
mod lost_jobs;
mod put_off;
mod retention;
mod snapshot;
mod stale_jobs;
mod standing_runs;
pub mod ticking;
mod waiting_jobs;
mod walks;

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::service::Control;
pub(crate) use appointments::Appointments;
pub use drifted_slots::DriftedSlots;
pub use due_timers::DueTimers;
pub(crate) use every_tenant::EveryTenant;
pub use lost_jobs::LostJobs;
pub use retention::Retention;
pub use snapshot::Snapshot;
pub use standing_runs::StandingRuns;
pub use waiting_jobs::WaitingJobs;
pub(crate) use walks::Walks;

/// What one look did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs whose retry, delay or time-out came due.
    pub runs_ripened: usize,
    /// Jobs whose worker was lost.
    pub jobs_lost: usize,
    /// Results that had found their run busy, and were delivered again.
    pub results_delivered: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// When the next thing is due, as far as is known.
    pub next_in: Option<Duration>,
}

/// Tenants that one look goes through, and rows of each.
const TENANTS_MAX: usize = 10_000;
const ROWS_MAX: usize = 500;

/// However much comes due, one look does not follow the other at once.
const LOOKS_APART: Duration = Duration::from_millis(5);

/// Looks until `shutdown`: at the poll's pace, or sooner where something is known to come due.
pub async fn run(control: Arc<Control>, shutdown: CancellationToken) {
    loop {
        let report = match run_once(&control).await {
            Ok(report) => report,
            Err(error) => {
                warn!(%error, "cannot look for what is due; trying again");
                Report::default()
            }
        };
        if report.runs_ripened + report.jobs_lost + report.results_delivered > 0 {
            debug!(?report, "reconciled");
        }
        let poll = control.settings.poll;
        let wait = report.next_in.map_or(poll, |next| next.clamp(LOOKS_APART, poll));
        let pause = async {
            let next = Instant::now() + wait;
            tokio::time::sleep(LOOKS_APART).await;
            // A result that is put off meanwhile may be due before that.
            control.put_off_results.wait(next).await;
        };
        if shutdown.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

pub async fn run_once(control: &Control) -> Result<Report, StoreError> {
    let due = control.store.due(TENANTS_MAX).await?;
    let mut report = Report { next_in: due.next_in, ..Report::default() };
    for tenant in &due.timers {
        match due_timers::ripen(control, tenant).await {
            Ok(ripened) => report.runs_ripened += ripened,
            Err(error) => failed(&mut report, tenant, &error),
        }
    }
    for tenant in &due.leases {
        match stale_jobs::expire(control, tenant).await {
            Ok(lost) => report.jobs_lost += lost,
            Err(error) => failed(&mut report, tenant, &error),
        }
    }
    for tenant in &due.put_off {
        match put_off::deliver(control, tenant).await {
            Ok(delivered) => {
                report.results_delivered += delivered;
                if delivered == put_off::RESULTS_MAX {
                    // There are more, and they are due.
                    report.next_in = Some(Duration::ZERO);
                }
            }
            Err(error) => failed(&mut report, tenant, &error),
        }
    }
    for tenant in due.held {
        control.wakeups.remember_held(tenant);
    }
    for tenant in due.ready {
        control.wake(Wake::RunReady { tenant });
    }
    Ok(report)
}

/// One tenant's trouble does not stop the others.
fn failed(report: &mut Report, tenant: &TenantId, error: &StoreError) {
    report.tenants_failed += 1;
    warn!(%tenant, %error, "cannot reconcile this tenant; trying again at the next look");
}
