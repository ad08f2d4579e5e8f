//! The budget of a held job: reserved from once the policy has nothing against the job, before it goes to its queue.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::budgets::{Budget, BudgetView, Reserved};
use interlock_backend::policy_holds::{HeldDue, JobReservation, Settled, Settlement};
use interlock_backend::verbs::{ReadBudget, ReadRun, SettleHeldJob};
use interlock_model::approval::AskedBudget;
use interlock_model::budget::{
    BudgetDocument, BudgetGroup, LedgerState, OnExhausted, StepBudget, Window, exhausted, job_permit_id,
};
use interlock_model::dispatch_policy::HoldReason;
use interlock_model::{BudgetName, RunId, TenantId, Timestamp};

use super::Policy;
use super::judge::ask;

/// A document may change, and a window end, between reading and reserving. More often is a storm.
const TRIES_MAX: usize = 5;

/// The first and the longest wait of a job whose budget has too little left, if nothing wakes it before.
const EXHAUSTED_FIRST: Duration = Duration::from_millis(500);
const EXHAUSTED_LONGEST: Duration = Duration::from_secs(10);

/// The shortest wait for a window that is about to end.
const RESET_PAUSE: Duration = Duration::from_millis(20);

/// Groups that are remembered, so that a job that waits does not read its run each time.
const GROUPS_MAX: usize = 4_096;

/// A run, and the version of a budget, which decide the group.
type GroupOf = (TenantId, RunId, BudgetName, Timestamp, u64);

/// The groups of runs that wait for budgets with a key or an amount per run.
#[derive(Default)]
pub(super) struct RunGroups(Mutex<BTreeMap<GroupOf, (Option<RunId>, BudgetGroup)>>);

/// Where a job reserves.
struct Place {
    run: Option<RunId>,
    group: BudgetGroup,
    window: Window,
}

/// Why a job reserved nothing.
struct Shortage {
    reason: String,
    on_exhausted: OnExhausted,
    /// Until when there is no more, if nothing that is reserved is released before.
    resets_in: Option<Duration>,
}

impl Policy {
    /// Reserves for the job and lets it go; or lets it wait, asks, or ends it, as its budget says.
    pub(super) async fn settle_budget(
        &self,
        tenant: &TenantId,
        (due, asked): (&HeldDue, &StepBudget),
    ) -> Result<Settled, StoreError> {
        let mut now = self.process.wall();
        for _ in 0..TRIES_MAX {
            let read = ReadBudget { tenant: tenant.clone(), name: asked.name.clone() };
            let Some(BudgetView { budget, .. }) = self.process.call(read).await? else {
                let reason = format!("there is no budget {}", asked.name);
                return self.settle_as(tenant, due, Settlement::Exhaust { reason }).await;
            };
            let place = match self.place(tenant, (due, &budget), now).await? {
                Ok(place) => place,
                Err(reason) => return self.settle_as(tenant, due, Settlement::Exhaust { reason }).await,
            };
            let settled = self.settle_as(tenant, due, reserve(tenant, due, &budget, &place, self)).await?;
            let Settled::NotReserved(refused) = settled else { return Ok(settled) };
            let shortage = match refused {
                Reserved::Outdated => continue,
                Reserved::WindowOver { now: by_the_store } => {
                    now = by_the_store;
                    continue;
                }
                Reserved::Exhausted { state, now, ahead } => {
                    Shortage::of(&budget, &place, (&state, ahead), (asked, now))
                }
                Reserved::TooMany { most, .. } => Shortage::passing(format!(
                    "budget {} has as many open permits or ledgers as it may: {most}",
                    asked.name
                )),
                Reserved::RunOver { .. } => {
                    Shortage::passing("the run whose amount it is has ended".to_owned())
                }
                // Its reservation is its release.
                Reserved::Granted { .. } => return Ok(Settled::NotHeld),
            };
            let (name, reserve, group) = (asked.name.clone(), asked.reserve, place.group);
            let settlement = shortage.settlement(due, AskedBudget { name, reserve, group });
            return self.settle_as(tenant, due, settlement).await;
        }
        let name = &asked.name;
        Err(StoreError::Conflict(format!("budget {name} changes faster than it can be read; try again")))
    }

    pub(super) async fn settle_as(
        &self,
        tenant: &TenantId,
        due: &HeldDue,
        settlement: Settlement,
    ) -> Result<Settled, StoreError> {
        if let Settlement::Wait { wait, .. } = &settlement {
            self.process.due_in(*wait);
        }
        self.process.call(SettleHeldJob { tenant: tenant.clone(), job: due.job.id.clone(), settlement }).await
    }

    /// Where the job reserves; or why nowhere.
    async fn place(
        &self,
        tenant: &TenantId,
        (due, budget): (&HeldDue, &Budget),
        now: Timestamp,
    ) -> Result<Result<Place, String>, StoreError> {
        let document = &budget.document;
        let Some(window) = document.window_at(now) else {
            return Ok(Err(format!("the calendar of budget {} does not reach this time", budget.name)));
        };
        if !document.asks_for_run() {
            return Ok(Ok(Place { run: None, group: BudgetGroup::everyone(), window }));
        }
        let run = due.job.id.run;
        let of = (tenant.clone(), run, budget.name.clone(), budget.created_at, budget.revision);
        if let Some((run, group)) = self.run_groups.get(&of) {
            return Ok(Ok(Place { run, group, window }));
        }
        let found = self.process.call(ReadRun { tenant: tenant.clone(), run }).await?;
        let found = found.ok_or_else(|| StoreError::not_found("run", run))?;
        Ok(match document.group_of_run(&found.start) {
            Ok((run, group)) => {
                self.run_groups.put(of, (run, group.clone()));
                Ok(Place { run, group, window })
            }
            Err(why) => Err(format!("the key of budget {} has no value: {why}", budget.name)),
        })
    }
}

fn reserve(tenant: &TenantId, due: &HeldDue, budget: &Budget, place: &Place, policy: &Policy) -> Settlement {
    // The timeline shows jobs that had to wait.
    let message = match due.hold.reason {
        HoldReason::BudgetExhausted => Some(format!("budget {} has enough left", budget.name)),
        HoldReason::BudgetApproved => {
            Some(format!("approved; budget {} has reserved what is left", budget.name))
        }
        HoldReason::PolicyPending
        | HoldReason::PolicyUnavailable
        | HoldReason::PolicyThrottled
        | HoldReason::Approval
        | HoldReason::BudgetPending
        | HoldReason::BudgetApproval => None,
    };
    let reservation = JobReservation {
        name: budget.name.clone(),
        revision: budget.revision,
        window: place.window,
        group: place.group.clone(),
        run: place.run,
        permit: job_permit_id(tenant, &budget.name, &due.job.id),
        is_queued: budget.document.on_exhausted == OnExhausted::Queue,
        wall_lead: policy.process.clock.wall_lead(),
    };
    Settlement::Reserve { reservation, message }
}

impl Shortage {
    fn of(
        budget: &Budget,
        place: &Place,
        (state, ahead): (&LedgerState, u32),
        (asked, now): (&StepBudget, Timestamp),
    ) -> Self {
        let named: (&str, &BudgetDocument) = (budget.name.as_str(), &budget.document);
        Self {
            reason: exhausted(named, (&place.group, &place.window), (state, ahead), (asked.reserve, now)),
            on_exhausted: budget.document.on_exhausted,
            resets_in: place.window.until.map(|until| until.since(now)),
        }
    }

    /// One that ends whatever the budget says about being exhausted.
    fn passing(reason: String) -> Self {
        Self { reason, on_exhausted: OnExhausted::Queue, resets_in: None }
    }

    fn settlement(self, due: &HeldDue, asked: AskedBudget) -> Settlement {
        let Self { reason, on_exhausted, resets_in } = self;
        match on_exhausted {
            OnExhausted::Deny => Settlement::Exhaust { reason },
            OnExhausted::Ask => ask(due, reason, Some(asked)),
            OnExhausted::Queue => {
                let wait = exhausted_wait(due);
                let wait = resets_in.map_or(wait, |reset| wait.min(reset.max(RESET_PAUSE)));
                // A person's approval is not lost by waiting.
                let is_approved = due.hold.reason == HoldReason::BudgetApproved;
                let held = if is_approved { HoldReason::BudgetApproved } else { HoldReason::BudgetExhausted };
                Settlement::Wait { reason: held, detail: reason, wait, acquired_until: due.hold.look_at }
            }
        }
    }
}

/// Twice as long each time, within bounds.
fn exhausted_wait(due: &HeldDue) -> Duration {
    let looks = if due.hold.reason == HoldReason::BudgetExhausted { due.hold.looks } else { 0 };
    EXHAUSTED_FIRST.saturating_mul(2_u32.saturating_pow(looks)).min(EXHAUSTED_LONGEST)
}

impl RunGroups {
    fn get(&self, of: &GroupOf) -> Option<(Option<RunId>, BudgetGroup)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(of).cloned()
    }

    fn put(&self, of: GroupOf, group: (Option<RunId>, BudgetGroup)) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= GROUPS_MAX {
            groups.clear();
        }
        groups.insert(of, group);
    }
}
