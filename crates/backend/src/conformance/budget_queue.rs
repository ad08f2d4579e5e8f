//! Jobs that wait for their budget: woken by what frees an amount, in the order in which they began to wait.

use std::time::Duration;

use interlock_model::JobId;
use interlock_model::budget::{BudgetDocument, BudgetGroup, Delta, Period};
use interlock_model::dispatch_policy::HoldReason;

use super::Subject;
use super::scene::acme;
use super::spending::{amount, document, request};
use super::step_budgets::Funded;
use crate::budgets::{Adjustment, Reserved};
use crate::policy_holds::{HeldDue, Settled, Settlement};
use crate::verbs::{AdjustBudget, CancelJob};

const HOUR: Duration = Duration::from_hours(1);

impl Funded {
    /// This many jobs that wait, for amounts of which nothing is left, and are due in an hour.
    async fn waiting_for(&self, amounts: &[&str]) -> Vec<JobId> {
        let (_, jobs) = self.holding_for(amounts, HoldReason::BudgetPending).await;
        for job in &jobs {
            self.refused(job).await;
            let _ = self.scene.settle(job, &sleep(None)).await;
        }
        assert_eq!(self.due().await, [], "none of them is due");
        jobs
    }

    /// How many wait ahead of a job that reserves nothing.
    async fn refused(&self, job: &JobId) -> u32 {
        match self.reserve(job).await {
            Settled::NotReserved(Reserved::Exhausted { ahead, .. }) => ahead,
            settled => panic!("expected too little, got {settled:?}"),
        }
    }

    async fn acquired(&self) -> Vec<HeldDue> {
        self.scene.take_held(&acme(), Duration::ZERO, 100).await
    }

    /// The jobs that may look now, in their order.
    async fn due(&self) -> Vec<JobId> {
        let mut due: Vec<JobId> = self.acquired().await.into_iter().map(|due| due.job.id).collect();
        due.sort();
        due
    }

    async fn adjust(&self, delta: &str, until: Option<Duration>) {
        let now = self.spending.budget.updated_at;
        let adjustment = Adjustment {
            id: format!("{:032x}", 7).parse().unwrap(),
            by: "ann".to_owned(),
            delta: delta.parse::<Delta>().unwrap(),
            reason: "more".to_owned(),
            until: until.map(|until| now + until),
            group: until.is_none().then(BudgetGroup::everyone),
        };
        let adjust = AdjustBudget {
            tenant: acme(),
            name: self.spending.name(),
            revision: self.spending.budget.revision,
            window: self.spending.window(now),
            adjustment,
            wall_lead: 0,
        };
        let _ = self.scene.store.call(adjust).await.expect("the budget is as it was");
    }
}

fn sleep(due: Option<&HeldDue>) -> Settlement {
    let acquired_until = due.and_then(|due| due.hold.look_at);
    let (reason, detail) = (HoldReason::BudgetExhausted, "too little".to_owned());
    Settlement::Wait { reason, detail, wait: HOUR, acquired_until }
}

pub async fn what_is_freed_lets_waiting_jobs_go_on_in_their_order(subject: &mut dyn Subject) {
    let funded = Funded::queued(subject, "0.1").await;
    let (first, _) = funded.spending.granted(&request("r1", "0.05")).await;
    let (second, _) = funded.spending.granted(&request("r2", "0.05")).await;
    let jobs = funded.waiting_for(&["0.05", "0.05", "0.05"]).await;
    let change = funded.spending.settle(&first, "0").await.unwrap();
    assert_eq!(change.woken, 1, "there is enough for one");
    assert_eq!(funded.due().await, jobs[..1]);

    // In whatever order they try, the one that has waited longest gets it; also before one that comes now.
    assert_eq!(funded.refused(&jobs[2]).await, 2);
    assert_eq!(funded.refused(&jobs[1]).await, 1);
    let (_, newcomer) = funded.holding(1, HoldReason::BudgetPending).await;
    assert_eq!(funded.refused(&newcomer[0]).await, 3);
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);
    assert_eq!(funded.numbers().await, ["0", "0.1", "0", "0", "0"]);

    assert_eq!(funded.spending.release(&second).await.unwrap().woken, 1);
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released);
    let claimed = funded.scene.claim(&acme(), 2).await;
    for claimed in &claimed {
        funded.finish(claimed, "0").await;
    }
    assert_eq!(funded.reserve(&jobs[2]).await, Settled::Released);
    assert_eq!(funded.reserve(&newcomer[0]).await, Settled::Released);
}

pub async fn whatever_frees_an_amount_wakes_who_waits_for_it(subject: &mut dyn Subject) {
    let mut funded = Funded::queued(subject, "0.05").await;
    let claimed = funded.working().await;
    let jobs = funded.waiting_for(&["0.05"; 7]).await;
    funded.finish(&claimed, "0").await;
    assert_eq!(funded.due().await, jobs[..1], "a result below the reservation");
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);

    let cancel = CancelJob { tenant: acme(), job: jobs[0].clone(), by: "ann".to_owned() };
    let _ = funded.scene.store.call(cancel).await.unwrap();
    assert_eq!(funded.due().await, jobs[1..2], "the end of a job that no worker had");
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released);

    funded.adjust("0.05", None).await;
    assert_eq!(funded.due().await, jobs[2..3], "an adjustment");
    assert_eq!(funded.reserve(&jobs[2]).await, Settled::Released);

    let BudgetDocument { on_exhausted, .. } = funded.spending.budget.document;
    let raised = BudgetDocument { on_exhausted, ..document("0.1", Period::Total) };
    funded.spending.save(raised).await;
    assert_eq!(funded.due().await, jobs[3..], "a change of the document: all look again");
    assert_eq!(funded.reserve(&jobs[3]).await, Settled::Released);
    assert_eq!(funded.refused(&jobs[4]).await, 0);
}

pub async fn a_temporary_increase_wakes_who_waits(subject: &mut dyn Subject) {
    let funded = Funded::queued(subject, "0.01").await;
    let jobs = funded.waiting_for(&["0.05", "0.05"]).await;
    funded.adjust("0.05", Some(HOUR)).await;
    assert_eq!(funded.due().await, jobs);
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);
    assert_eq!(funded.refused(&jobs[1]).await, 0);
}

/// Between the look of a job and its sleep, an amount may be freed.
pub async fn a_job_that_was_woken_while_it_looked_does_not_sleep(subject: &mut dyn Subject) {
    let funded = Funded::queued(subject, "0.05").await;
    let (permit, _) = funded.spending.granted(&request("r1", "0.05")).await;
    let (_, jobs) = funded.holding(1, HoldReason::BudgetPending).await;
    let acquired = funded.acquired().await.remove(0);
    assert_eq!(funded.refused(&jobs[0]).await, 0);
    assert_eq!(funded.spending.release(&permit).await.unwrap().woken, 1);
    let Settled::Waiting(at) = funded.scene.settle(&jobs[0], &sleep(Some(&acquired))).await else {
        panic!("it waits")
    };
    assert!(at < acquired.hold.look_at.unwrap());
    assert_eq!(funded.due().await, jobs);
    assert_eq!(funded.reserve(&jobs[0]).await, Settled::Released);
}

pub async fn a_job_that_wants_more_than_the_amount_does_not_hold_up_the_others(subject: &mut dyn Subject) {
    let funded = Funded::queued(subject, "0.05").await;
    let (permit, _) = funded.spending.granted(&request("r1", "0.05")).await;
    let jobs = funded.waiting_for(&["0.06", "0.04", "0.02"]).await;
    let _ = funded.spending.release(&permit).await.unwrap();
    assert_eq!(funded.due().await, jobs[1..2], "0.04 of 0.05, and then 0.02 is too much");
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released);
    assert_eq!(funded.refused(&jobs[2]).await, 1);
}

/// One that waits for much holds up those behind it, until it has got it or waits no more.
pub async fn the_end_of_a_waiting_job_lets_the_next_go_on(subject: &mut dyn Subject) {
    let funded = Funded::queued(subject, "0.05").await;
    let _ = funded.spending.granted(&request("r1", "0.02")).await;
    let (_, jobs) = funded.holding_for(&["0.05", "0.01"], HoldReason::BudgetPending).await;
    for job in &jobs {
        funded.refused(job).await;
        let _ = funded.scene.settle(job, &sleep(None)).await;
    }
    assert_eq!(funded.refused(&jobs[1]).await, 1, "enough is left for it, and another is first");
    let cancel = CancelJob { tenant: acme(), job: jobs[0].clone(), by: "ann".to_owned() };
    let _ = funded.scene.store.call(cancel).await.unwrap();
    assert_eq!(funded.due().await, jobs[1..]);
    assert_eq!(funded.reserve(&jobs[1]).await, Settled::Released);
    let state = funded.spending.state(funded.spending.budget.updated_at, None).await;
    assert_eq!(state.remaining, amount("0.02"));
}
