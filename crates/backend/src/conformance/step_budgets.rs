//! Budgets of steps: what a job reserves before it may go to its queue.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::approval::{Resolution, Verdict};
use interlock_model::budget::{
    BudgetDocument, BudgetGroup, OnExhausted, Period, PermitState, StepBudget, job_permit_id,
};
use interlock_model::dispatch_policy::{HeldJob, HoldReason};
use interlock_model::job::{Job, JobOutcome, JobState, NewJob};
use interlock_model::{JobId, RunId, Timestamp};

use super::Subject;
use super::policy_holds::{ask, release, verdict, wait};
use super::scene::{Scene, acme, name, new_job, outcomes, running};
use super::spending::{Spending, amount, document, numbers, request};
use crate::StoreError;
use crate::budgets::Reserved;
use crate::jobs::Claimed;
use crate::policy_holds::{JobReservation, Settled, Settlement};
use crate::verbs::{FindDue, ResolveApproval};

/// A workflow with jobs that reserve from one budget.
pub(super) struct Funded {
    pub(super) scene: Scene,
    pub(super) spending: Spending,
}

impl Funded {
    pub(super) async fn of(subject: &dyn Subject, limit: &str) -> Self {
        Self::per(subject, limit, Period::Total).await
    }

    pub(super) async fn per(subject: &dyn Subject, limit: &str, per: Period) -> Self {
        let scene = Scene::with_cap(subject, 10).await;
        let spending = Spending::of(subject, document(limit, per)).await;
        Self { scene, spending }
    }

    /// With a budget for which jobs wait.
    pub(super) async fn queued(subject: &dyn Subject, limit: &str) -> Self {
        let scene = Scene::with_cap(subject, 10).await;
        let document = BudgetDocument { on_exhausted: OnExhausted::Queue, ..document(limit, Period::Total) };
        Self { scene, spending: Spending::of(subject, document).await }
    }

    /// A run with this many jobs that are held for the reason, and reserve 0.05 each.
    pub(super) async fn holding(&self, jobs: u32, reason: HoldReason) -> (RunId, Vec<JobId>) {
        self.holding_for(&vec!["0.05"; jobs as usize], reason).await
    }

    /// A run with a job for each of these amounts.
    pub(super) async fn holding_for(&self, amounts: &[&str], reason: HoldReason) -> (RunId, Vec<JobId>) {
        let run = self.scene.started(&acme()).await;
        let mut turn = running(&self.scene.taken(&acme(), run).await);
        turn.dispatched.clear();
        let budget = |wanted| Some(StepBudget { name: self.spending.name(), reserve: amount(wanted) });
        let job = |(attempt, wanted)| NewJob { budget: budget(wanted), ..new_job(run, attempt) };
        let held = |job| HeldJob { job, reason, detail: "to be asked".to_owned() };
        turn.held = (1..).zip(amounts.iter().copied()).map(job).map(held).collect();
        let held = turn.held.iter().map(|held| held.job.id.clone()).collect();
        let _ = self.scene.commit(turn).await.expect("the turn is in time");
        (run, held)
    }

    pub(super) async fn held_one(&self) -> JobId {
        self.holding(1, HoldReason::BudgetPending).await.1.remove(0)
    }

    pub(super) fn reservation(&self, job: &JobId, now: Timestamp) -> Settlement {
        let name = self.spending.name();
        let reservation = JobReservation {
            revision: self.spending.budget.revision,
            window: self.spending.window(now),
            group: BudgetGroup::everyone(),
            run: None,
            permit: job_permit_id(&acme(), &name, job),
            is_queued: self.spending.budget.document.on_exhausted == OnExhausted::Queue,
            name,
            wall_lead: 0,
        };
        Settlement::Reserve { reservation, message: None }
    }

    pub(super) async fn reserve(&self, job: &JobId) -> Settled {
        let mut now = self.spending.budget.updated_at;
        loop {
            match self.scene.settle(job, &self.reservation(job, now)).await {
                Settled::NotReserved(Reserved::WindowOver { now: by_the_store }) => now = by_the_store,
                settled => return settled,
            }
        }
    }

    /// A claimed job that has reserved.
    pub(super) async fn working(&self) -> Claimed {
        let job = self.held_one().await;
        assert_eq!(self.reserve(&job).await, Settled::Released);
        let claimed = self.scene.claim(&acme(), 1).await.remove(0);
        assert_eq!(claimed.job.id, job);
        claimed
    }

    /// Spent, reserved, unsettled, overdraft, and what is left.
    pub(super) async fn numbers(&self) -> [String; 5] {
        numbers(&self.spending.state(self.spending.budget.updated_at, None).await)
    }

    pub(super) async fn row(&self, job: &JobId) -> Job {
        self.scene.job(job).await.job
    }
}

pub async fn a_job_is_queued_in_the_step_that_reserves_for_it(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let job = funded.held_one().await;
    assert_eq!(funded.scene.claim(&acme(), 1).await, [], "nothing is reserved yet");
    let due = funded.scene.take_held(&acme(), Duration::ZERO, 10).await;
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].job.budget.as_ref().map(|budget| budget.reserve), Some(amount("0.05")));

    assert_eq!(funded.reserve(&job).await, Settled::Released);
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);
    let permit = job_permit_id(&acme(), &funded.spending.name(), &job);
    let shown = funded.scene.job(&job).await;
    assert_eq!((shown.state, shown.job.permit), (JobState::Queued, Some(permit)));
    assert_eq!(funded.reserve(&job).await, Settled::NotHeld, "it is reserved once");
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);

    // What a job has reserved has no end but the job's.
    subject.elapse(Duration::from_secs(3)).await;
    assert_eq!(funded.spending.expire().await.expired, 0);
    assert_eq!(funded.scene.store.call(FindDue { limit: 10 }).await.unwrap().budgets, []);
    assert_eq!(funded.scene.claim(&acme(), 1).await.len(), 1);
    assert_eq!(funded.numbers().await, ["0", "0.05", "0", "0", "0.95"]);
}

/// Jobs and clients at once: of the two together, exactly as many reserve as the budget allows.
pub async fn jobs_and_clients_together_never_reserve_more_than_the_amount(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "0.6").await;
    let (_, jobs) = funded.holding(20, HoldReason::BudgetPending).await;
    let requests: Vec<_> = (0..20).map(|number| request(&format!("r{number}"), "0.05")).collect();
    let by_jobs = join_all(jobs.iter().map(|job| funded.reserve(job)));
    let by_clients = join_all(requests.iter().map(|request| funded.spending.ask(request)));
    let (by_jobs, by_clients) = futures_util::future::join(by_jobs, by_clients).await;
    let released = by_jobs.iter().filter(|settled| **settled == Settled::Released).count();
    let granted = by_clients.iter().filter(|asked| matches!(asked, Ok(Reserved::Granted { .. }))).count();
    assert_eq!(released + granted, 12, "{by_jobs:?}");
    assert_eq!(funded.numbers().await, ["0", "0.6", "0", "0", "0"]);
    let mut queued = 0;
    for (job, settled) in jobs.iter().zip(&by_jobs) {
        let state = funded.scene.job(job).await.state;
        queued += usize::from(state == JobState::Queued);
        let is_exhausted = matches!(settled, Settled::NotReserved(Reserved::Exhausted { .. }));
        assert_eq!(is_exhausted, state == JobState::Held, "{settled:?}");
    }
    assert_eq!(queued, released);
}

pub async fn a_job_that_reserved_nothing_waits_until_there_is_enough(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "0.08").await;
    let (_, jobs) = funded.holding(2, HoldReason::BudgetPending).await;
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);
    let Settled::NotReserved(Reserved::Exhausted { state, .. }) = funded.reserve(&jobs[1]).await else {
        panic!("too little is left")
    };
    assert_eq!(numbers(&state), ["0", "0.05", "0", "0", "0.03"]);
    let exhausted = wait(HoldReason::BudgetExhausted, "too little");
    assert!(matches!(funded.scene.settle(&jobs[1], &exhausted).await, Settled::Waiting(_)));
    let hold = funded.scene.job(&jobs[1]).await.hold.expect("it is held");
    assert_eq!((hold.reason, hold.detail.as_str()), (HoldReason::BudgetExhausted, "too little"));

    let claimed = funded.scene.claim(&acme(), 1).await.remove(0);
    assert_eq!(claimed.job.id, jobs[0]);
    funded.finish(&claimed, "0.01").await;
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released);
    assert_eq!(funded.numbers().await, ["0.01", "0.05", "0", "0", "0.02"]);
}

pub async fn a_job_that_the_policy_releases_reserves_first(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let job = funded.holding(1, HoldReason::PolicyPending).await.1.remove(0);
    assert_eq!(funded.reserve(&job).await, Settled::NotHeld, "the policy has not decided yet");
    assert_eq!(funded.scene.settle(&job, &release()).await, Settled::Released);
    assert_eq!(funded.scene.claim(&acme(), 1).await, []);
    let hold = funded.scene.job(&job).await.hold.expect("its budget is next");
    assert_eq!((hold.reason, hold.looks), (HoldReason::BudgetPending, 0));
    assert_eq!(hold.detail, "budget llm is to be asked");
    let due = funded.scene.take_held(&acme(), Duration::ZERO, 10).await;
    assert_eq!(due.len(), 1, "it is due at once");
    assert_eq!(funded.reserve(&job).await, Settled::Released);
    assert_eq!(funded.scene.claim(&acme(), 1).await.len(), 1);
}

/// A person lets one job go although too little is left: it reserves what is left, and the rest of its usage is overdraft.
pub async fn an_approved_job_reserves_what_is_left(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "0.02").await;
    let job = funded.held_one().await;
    assert!(matches!(funded.reserve(&job).await, Settled::NotReserved(Reserved::Exhausted { .. })));
    let due = funded.scene.take_held(&acme(), Duration::ZERO, 1).await.remove(0);
    assert_eq!(funded.scene.settle(&job, &ask(&due)).await, Settled::Asked);
    assert_eq!(funded.scene.job(&job).await.hold.unwrap().reason, HoldReason::BudgetApproval);
    assert_eq!(funded.reserve(&job).await, Settled::NotHeld, "a person is asked");

    let decision = verdict(Verdict::Approved);
    let approve = ResolveApproval { tenant: acme(), job: job.clone(), decision };
    assert_eq!(funded.scene.store.call(approve).await, Ok(Resolution::Recorded));
    let hold = funded.scene.job(&job).await.hold.unwrap();
    assert_eq!(hold.reason, HoldReason::BudgetApproved);
    assert_eq!(funded.reserve(&job).await, Settled::Released);
    assert_eq!(funded.numbers().await, ["0", "0.02", "0", "0", "0"], "no more than the amount");
    let claimed = funded.scene.claim(&acme(), 1).await.remove(0);
    funded.finish(&claimed, "0.05").await;
    assert_eq!(funded.numbers().await, ["0.05", "0", "0", "0.03", "0"]);
}

pub async fn an_approval_of_the_policy_is_none_of_the_budget(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "0.02").await;
    let job = funded.holding(1, HoldReason::PolicyPending).await.1.remove(0);
    let due = funded.scene.take_held(&acme(), Duration::ZERO, 1).await.remove(0);
    assert_eq!(funded.scene.settle(&job, &ask(&due)).await, Settled::Asked);
    let decision = verdict(Verdict::Approved);
    let approve = ResolveApproval { tenant: acme(), job: job.clone(), decision };
    assert_eq!(funded.scene.store.call(approve).await, Ok(Resolution::Recorded));
    assert_eq!(funded.scene.job(&job).await.hold.unwrap().reason, HoldReason::BudgetPending);
    assert!(matches!(funded.reserve(&job).await, Settled::NotReserved(Reserved::Exhausted { .. })));
}

pub async fn a_job_ends_when_its_budget_says_so(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "0.02").await;
    let (run, jobs) = funded.holding(2, HoldReason::BudgetPending).await;
    let reason = "too little is left".to_owned();
    let exhaust = Settlement::Exhaust { reason: reason.clone() };
    assert_eq!(funded.scene.settle(&jobs[0], &exhaust).await, Settled::Denied);
    assert_eq!(funded.scene.job(&jobs[0]).await.state, JobState::Denied);
    let due = funded.scene.take_held(&acme(), Duration::ZERO, 1).await.remove(0);
    assert_eq!(funded.scene.settle(&jobs[1], &ask(&due)).await, Settled::Asked);
    let decision = verdict(Verdict::Rejected);
    let reject = ResolveApproval { tenant: acme(), job: jobs[1].clone(), decision };
    assert_eq!(funded.scene.store.call(reject).await, Ok(Resolution::Recorded));
    assert_eq!(funded.scene.job(&jobs[1]).await.state, JobState::Denied);
    assert_eq!(funded.numbers().await, ["0", "0", "0", "0", "0.02"]);
    let mut taken = funded.scene.taken(&acme(), run).await;
    taken.inbox.truncate(1);
    assert_eq!(outcomes(&taken), [(jobs[0].clone(), JobOutcome::Exhausted { reason })]);
}

pub async fn a_job_reserves_from_the_budget_of_its_step_as_it_is_now(subject: &mut dyn Subject) {
    let mut funded = Funded::per(subject, "1", Period::Day).await;
    let job = funded.held_one().await;
    let now = funded.spending.budget.updated_at;
    let stale = funded.reservation(&job, now);
    let earlier = funded.reservation(&job, now - Duration::from_hours(48));
    let over = funded.scene.settle(&job, &earlier).await;
    assert!(matches!(over, Settled::NotReserved(Reserved::WindowOver { .. })), "{over:?}");
    funded.spending.save(document("0.01", Period::Day)).await;
    let outdated = funded.scene.settle(&job, &stale).await;
    assert_eq!(outdated, Settled::NotReserved(Reserved::Outdated));
    assert!(matches!(funded.reserve(&job).await, Settled::NotReserved(Reserved::Exhausted { .. })));

    let mut other = funded.reservation(&job, now);
    if let Settlement::Reserve { reservation, .. } = &mut other {
        reservation.name = name("other");
    }
    assert_eq!(funded.scene.settle(&job, &other).await, Settled::NotHeld, "its step names another budget");
    let (_, plain) = funded.scene.held_one().await;
    assert_eq!(funded.reserve(&plain).await, Settled::NotHeld, "it reserves from none");
}

pub async fn the_permit_of_a_job_ends_only_with_the_job(subject: &mut dyn Subject) {
    let funded = Funded::of(subject, "1").await;
    let job = funded.held_one().await;
    assert_eq!(funded.reserve(&job).await, Settled::Released);
    let (permit, _) = funded.spending.granted(&request("r1", "0.01")).await;
    let mut of_job = permit.clone();
    of_job.id = funded.row(&job).await.permit.expect("it has reserved");
    let refused = [
        funded.spending.settle(&of_job, "0.01").await,
        funded.spending.release(&of_job).await,
        funded.spending.renew(&of_job, Duration::from_secs(2)).await,
    ];
    for refused in refused {
        let is_named = matches!(&refused, Err(StoreError::Conflict(why)) if why.contains(&job.to_string()));
        assert!(is_named, "{refused:?}");
    }
    assert_eq!(funded.numbers().await, ["0", "0.06", "0", "0", "0.94"]);
    let _ = funded.spending.release(&permit).await.unwrap();
    assert_eq!(funded.spending.read().await.open, 1);
    assert_eq!(permit.state, PermitState::Open);
}
