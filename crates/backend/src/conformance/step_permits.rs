//! What the end of a job makes of what it had reserved.

use std::time::Duration;

use interlock_model::budget::{JobUsage, Permit, PermitState};
use interlock_model::dispatch_policy::HoldReason;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::scheduling::Edge;
use interlock_model::{BudgetName, Fence, JobId};
use serde_json::json;

use super::Subject;
use super::deliveries::{deferred, is_fenced, report};
use super::scene::{LEASE, acme, idle, name};
use super::spending::{amount, document, numbers, request};
use super::step_budgets::Funded;
use crate::deliveries::{DeferOutcome, DeferResult, DeliveryOutcome};
use crate::jobs::{Claimed, Report};
use crate::policy_holds::Settled;
use crate::verbs::{CancelJob, DeleteBudget, DeleteRun, ExpireLeases, RecordResult};

pub(super) fn usage(spent: &[(&str, &str)]) -> JobUsage {
    spent.iter().map(|(budget, spent)| (name::<BudgetName>(budget), amount(spent))).collect()
}

fn spent(limit: &str) -> JobOutcome {
    JobOutcome::completed(json!({"ok": true})).with_usage(usage(&[("llm", limit)]))
}

impl Funded {
    async fn record(&self, claimed: &Claimed, outcome: JobOutcome) -> Report {
        let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
        let result = RecordResult { tenant: acme(), job, fence, edge: Some(Edge::Http), outcome };
        self.scene.store.call(result).await.expect("the lease is in force")
    }

    /// The job is done and has spent this.
    pub(super) async fn finish(&self, claimed: &Claimed, limit: &str) {
        assert_eq!(self.record(claimed, spent(limit)).await, Report::Recorded);
    }

    /// The permit of a job, as calls about it need it.
    async fn permit(&self, job: &JobId) -> Permit {
        let (mut permit, _) = self.spending.granted(&request("r1", "0")).await;
        let _ = self.spending.release(&permit).await.expect("it was granted");
        permit.id = self.row(job).await.permit.expect("it has reserved");
        permit
    }
}

pub async fn a_result_settles_what_its_job_had_reserved_once(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let (job, fence) = (claimed.job.id.clone(), Fence::new(claimed.lease.fence.number() + 1));
    let late = RecordResult { tenant: acme(), job, fence, edge: Some(Edge::Http), outcome: spent("0.04") };
    assert!(is_fenced(&funded.scene.store.call(late.clone()).await));
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"], "a stale fence settles nothing");

    assert_eq!(funded.record(&claimed, spent("0.031")).await, Report::Recorded);
    let settled = ["0.031", "0", "0", "0", "0.969"];
    assert_eq!(funded.numbers().await, settled);
    assert_eq!(funded.record(&claimed, spent("0.031")).await, Report::AlreadyRecorded);
    assert_eq!(
        funded.record(&claimed, spent("0.5")).await,
        Report::AlreadyRecorded,
        "the first report counts"
    );
    assert!(is_fenced(&funded.scene.store.call(late).await));
    assert_eq!(funded.numbers().await, settled);
    let budget = funded.spending.read().await;
    assert_eq!((budget.open, budget.ended), (0, 1));
}

pub async fn a_failure_settles_too_and_more_than_was_reserved_is_overdraft(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let failed = JobOutcome::failed("no".to_owned(), true).with_usage(usage(&[("llm", "0.2")]));
    assert_eq!(funded.record(&claimed, failed).await, Report::Recorded);
    assert_eq!(funded.numbers().await, ["0.2", "0", "0", "0.15", "0.8"]);
    assert_eq!(funded.spending.read().await.overdrafts, 1);
}

pub async fn a_result_without_its_usage_leaves_the_reservation_unsettled(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let other = JobOutcome::completed(json!(1)).with_usage(usage(&[("other", "0.4")]));
    assert_eq!(funded.record(&claimed, other).await, Report::Recorded, "other budgets are ignored");
    assert_eq!(funded.numbers().await, ["0", "0", "0.05", "0", "0.95"]);
    // A late settlement corrects it.
    let permit = funded.permit(&claimed.job.id).await;
    let change = funded.spending.settle(&permit, "0.01").await.unwrap();
    assert_eq!((change.permit.state, change.permit.job), (PermitState::Settled, Some(claimed.job.id)));
    assert_eq!(numbers(&change.state), ["0.01", "0", "0", "0", "0.99"]);
}

pub async fn a_result_that_brings_its_run_settles(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let delivered = funded.scene.store.call(report(&claimed, spent("0.02"))).await;
    assert!(matches!(delivered, Ok(DeliveryOutcome::Recorded(_))), "{delivered:?}");
    let again = funded.scene.store.call(report(&claimed, spent("0.02"))).await;
    assert_eq!(again, Ok(DeliveryOutcome::AlreadyRecorded));
    assert_eq!(funded.numbers().await, ["0.02", "0", "0", "0", "0.98"]);
}

pub async fn a_deferred_result_settles_when_it_counts(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let kept = DeferResult { outcome: spent("0.02"), ..deferred(&claimed, 1) };
    assert_eq!(funded.scene.store.call(kept).await, Ok(DeferOutcome::Deferred));
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);
    // No process delivers it. With the end of the lease it counts, and so does what was spent.
    subject.elapse(LEASE * 20).await;
    let lost = funded.scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
    assert_eq!(lost.as_slice(), std::slice::from_ref(&claimed.job.id));
    assert_eq!(funded.scene.job(&claimed.job.id).await.state, JobState::Succeeded);
    assert_eq!(funded.numbers().await, ["0.02", "0", "0", "0", "0.98"]);
}

pub async fn a_job_that_no_worker_had_releases_its_reservation(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let (run, jobs) = funded.holding(3, HoldReason::BudgetPending).await;
    for job in &jobs {
        assert_eq!(funded.reserve(job).await, Settled::Released);
    }
    assert_eq!(funded.numbers().await, ["0", "0.15", "0", "0", "0.85"]);
    let cancel = CancelJob { tenant: acme(), job: jobs[0].clone(), by: "ops".to_owned() };
    assert_eq!(funded.scene.store.call(cancel).await, Ok(JobState::Cancelled));
    assert_eq!(funded.numbers().await, ["0", "0.1", "0", "0", "0.9"]);
    let mut turn = idle(&funded.scene.taken(&acme(), run).await);
    turn.revoked = vec![jobs[1].clone(), jobs[1].clone()];
    let _ = funded.scene.commit(turn).await.expect("the turn is in time");
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);
    funded.scene.store.call(DeleteRun { tenant: acme(), run }).await.expect("the run is there");
    assert_eq!(funded.numbers().await, ["0", "0", "0", "0", "1"]);
    let budget = funded.spending.read().await;
    assert_eq!((budget.open, budget.ended), (0, 3));
}

/// Its worker may have spent it: all of it counts, shown apart. Each attempt reserves for itself.
pub async fn a_lost_worker_leaves_the_reservation_unsettled(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let (_, jobs) = funded.holding(2, HoldReason::BudgetPending).await;
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);
    let claimed = funded.scene.claim(&acme(), 1).await.remove(0);
    subject.elapse(LEASE).await;
    let lost = funded.scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
    assert_eq!(lost, [jobs[0].clone()]);
    assert_eq!(funded.numbers().await, ["0", "0", "0.05", "0", "0.95"]);
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released, "the next attempt");
    assert_eq!(funded.numbers().await, ["0", "0.05", "0.05", "0", "0.9"]);
    let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
    let late = RecordResult { tenant: acme(), job, fence, edge: Some(Edge::Http), outcome: spent("0.01") };
    assert!(is_fenced(&funded.scene.store.call(late).await), "a late result settles nothing");
    assert_eq!(funded.numbers().await, ["0", "0.05", "0.05", "0", "0.9"]);
}

pub async fn a_job_that_ends_under_its_worker_leaves_the_reservation_unsettled(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let (first, second, third) = (funded.working().await, funded.working().await, funded.working().await);
    let cancel = CancelJob { tenant: acme(), job: first.job.id.clone(), by: "ops".to_owned() };
    assert_eq!(funded.scene.store.call(cancel).await, Ok(JobState::Cancelled));
    assert_eq!(funded.numbers().await, ["0", "0.1", "0.05", "0", "0.85"]);
    let run = second.job.id.run;
    funded.scene.store.call(DeleteRun { tenant: acme(), run }).await.expect("the run is there");
    assert_eq!(funded.numbers().await, ["0", "0.05", "0.1", "0", "0.85"]);
    // With its budget everything about it goes, and the job ends all the same.
    let (tenant, name) = (acme(), funded.spending.name());
    funded.scene.store.call(DeleteBudget { tenant, name, expected: None }).await.expect("it is there");
    funded.finish(&third, "0.01").await;
}

pub async fn what_a_job_reserved_in_one_window_settles_there(subject: &mut dyn Subject) {
    let mut funded = Funded::per(subject, "1", interlock_model::budget::Period::Hour).await;
    let claimed = funded.working().await;
    let before = funded.spending.budget.updated_at;
    // A changed calendar begins another window.
    funded.spending.save(document("1", interlock_model::budget::Period::Day)).await;
    funded.finish(&claimed, "0.02").await;
    let today = funded.spending.state(before, None).await;
    assert_eq!(numbers(&today), ["0", "0", "0", "0", "1"]);
    funded.spending.save(document("1", interlock_model::budget::Period::Hour)).await;
    let hour = funded.spending.state(before, None).await;
    assert_eq!(numbers(&hour), ["0.02", "0", "0", "0", "0.98"]);
}

pub async fn what_jobs_reserved_survives_a_reopening(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let claimed = funded.working().await;
    let before = funded.spending.budget.clone();
    drop(funded);
    subject.reopen().await;
    let mut spending = super::spending::Spending::named(subject, "llm", before.document.clone()).await;
    spending.budget.updated_at = before.updated_at;
    let funded = Funded { scene: super::scene::Scene::of(subject), spending };
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);
    funded.finish(&claimed, "0.05").await;
    assert_eq!(funded.numbers().await, ["0.05", "0", "0", "0", "0.95"]);
    assert_eq!(funded.scene.take_held(&acme(), Duration::ZERO, 10).await, []);
}
