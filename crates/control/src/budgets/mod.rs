//! Budgets: what may be spent is reserved before it is spent, and settled after.

mod refusal;

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::PageRequest;
use interlock_backend::StoreError;
use interlock_backend::Wake;
use interlock_backend::budgets::{
    Adjusted, Adjustment, Budget, BudgetView, GroupLedger, PermitChange, Reserved,
};
use interlock_backend::verbs::{
    AdjustBudget, DeleteBudget, ListBudgetGroups, ReadBudget, ReleasePermit, RenewPermit, ReserveBudget,
    SaveBudget, SettlePermit,
};
use interlock_model::budget::{
    Amount, BudgetDocument, BudgetGroup, Delta, INCREASE_MAX, Ledger, LedgerState, Period, Permit, Window,
    limit, permit_id,
};
use interlock_model::{BudgetName, BudgetRequest, PermitId, RunId, TenantId, Timestamp};

use crate::journal;
use crate::process::Process;
pub use refusal::{BudgetError, Exhausted};
use refusal::{refusal, run_over, storm, too_many};

/// A document may change, and a window end, between reading and reserving. More often is a storm.
const TRIES_MAX: usize = 5;

/// Groups of a window that are looked at for the busiest, in pages, and how many are shown.
const GROUPS_READ_MAX: usize = 1_000;
const GROUPS_A_PAGE: usize = 250;
const GROUPS_SHOWN_MAX: usize = 20;

/// The budgets of tenants, for their users.
pub struct Budgets {
    pub(crate) process: Arc<Process>,
}

/// A request for a permit.
#[derive(Debug, Clone)]
pub struct PermitRequest {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub amount: Amount,
    pub least: Amount,
    pub ttl: Duration,
    /// The client's name for this request, under which it may be repeated.
    pub request: BudgetRequest,
    pub run: Option<RunId>,
    pub key: Option<String>,
}

/// A permit, and what is left beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct PermitGrant {
    pub permit: Permit,
    pub state: LedgerState,
    pub is_replay: bool,
}

/// What is counted of a budget now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurrentUsage {
    pub window: Window,
    /// Over all groups of the window.
    pub total: Ledger,
    /// What is left, if all share one amount.
    pub state: Option<LedgerState>,
}

/// An operator's change of what may be spent.
#[derive(Debug, Clone)]
pub struct AdjustRequest {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub by: String,
    pub delta: Delta,
    pub reason: String,
    pub until: Option<Timestamp>,
    pub run: Option<RunId>,
    pub key: Option<String>,
    /// The client's name for this request, under which it may be repeated.
    pub request: Option<BudgetRequest>,
}

impl Budgets {
    pub async fn save(
        &self,
        (tenant, name): (TenantId, BudgetName),
        document: BudgetDocument,
        expected: Option<u64>,
    ) -> Result<Budget, BudgetError> {
        document.check()?;
        let save = SaveBudget { tenant: tenant.clone(), name, document, expected };
        let saved = self.process.call(save).await?;
        self.process.wake(Wake::JobsHeld { tenant });
        Ok(saved)
    }

    pub async fn delete(
        &self,
        (tenant, name): (TenantId, BudgetName),
        expected: Option<u64>,
    ) -> Result<(), StoreError> {
        self.process.call(DeleteBudget { tenant, name, expected }).await
    }

    /// How far the wall clock is ahead of the store's, as far as this process knows.
    fn lead(&self) -> i64 {
        self.process.clock.wall_lead()
    }

    async fn read(&self, tenant: &TenantId, name: &BudgetName) -> Result<Budget, BudgetError> {
        let found = self.process.call(ReadBudget { tenant: tenant.clone(), name: name.clone() }).await?;
        let missing = || StoreError::not_found("budget", name);
        Ok(found.map(|BudgetView { budget, .. }| budget).ok_or_else(missing)?)
    }

    /// What is counted of a budget in the window that it is now.
    pub fn current(&self, BudgetView { budget, total }: &BudgetView) -> Result<CurrentUsage, BudgetError> {
        let now = self.process.wall();
        let window = window_of(&budget.document, now)?;
        let is_newest = budget.window.as_ref().is_some_and(|newest| *newest == window.to_string());
        let total = if is_newest { *total } else { Ledger::default() };
        let document = &budget.document;
        let is_shared = document.key.is_none() && document.per != Period::Run;
        let state = is_shared.then(|| {
            let everyone = BudgetGroup::everyone();
            total.under(limit(document.amount, &budget.increases, total.adjusted, (&everyone, now)))
        });
        Ok(CurrentUsage { window, total, state })
    }

    /// The busiest groups of the window that it is now, or the one that is asked for.
    pub async fn groups(
        &self,
        (tenant, budget): (&TenantId, &Budget),
        run: Option<RunId>,
        key: Option<&str>,
    ) -> Result<Vec<GroupLedger>, BudgetError> {
        let only = match (run, key) {
            (None, None) => None,
            (run, key) => Some(group_of(&budget.document, run, key)?.1),
        };
        let mut list = ListBudgetGroups {
            tenant: tenant.clone(),
            name: budget.name.clone(),
            window: window_of(&budget.document, self.process.wall())?.to_string(),
            wall_lead: self.lead(),
            only,
            page: PageRequest { limit: GROUPS_A_PAGE, after: None },
        };
        let mut found: Vec<GroupLedger> = Vec::new();
        for _ in 0..GROUPS_READ_MAX / GROUPS_A_PAGE {
            let page = self.process.call(list.clone()).await?;
            found.extend(page.items);
            list.page.after = page.next;
            if list.page.after.is_none() {
                break;
            }
        }
        found.sort_by_key(|group| {
            std::cmp::Reverse(group.state.ledger.used().plus(group.state.ledger.reserved))
        });
        found.truncate(GROUPS_SHOWN_MAX);
        Ok(found)
    }

    pub async fn reserve(&self, request: PermitRequest) -> Result<PermitGrant, BudgetError> {
        let PermitRequest { tenant, name, .. } = &request;
        let mut now = self.process.wall();
        for _ in 0..TRIES_MAX {
            let budget = self.read(tenant, name).await?;
            let (run, group) = group_of(&budget.document, request.run, request.key.as_deref())?;
            let window = window_of(&budget.document, now)?;
            let reserve = ReserveBudget {
                tenant: tenant.clone(),
                name: name.clone(),
                revision: budget.revision,
                window,
                group: group.clone(),
                run,
                permit: permit_id(tenant, name, &request.request),
                amount: request.amount,
                least: request.least,
                ttl: request.ttl,
                wall_lead: self.lead(),
            };
            match self.process.call(reserve).await? {
                Reserved::Granted { permit, state, is_replay } => {
                    self.process.due_in(request.ttl);
                    return Ok(PermitGrant { permit, state, is_replay });
                }
                Reserved::Exhausted { state, now, .. } => {
                    let place = (&group, &window);
                    let refused = refusal(&budget, place, &state, (request.least, now));
                    return Err(BudgetError::Exhausted(Box::new(refused)));
                }
                Reserved::Outdated => {}
                Reserved::WindowOver { now: by_the_store } => now = by_the_store,
                Reserved::TooMany { what, most } => return Err(too_many(name, what, most)),
                Reserved::RunOver { is_known } => return Err(run_over(run, is_known)),
            }
        }
        Err(storm(name))
    }

    pub async fn renew(
        &self,
        (tenant, name): (TenantId, BudgetName),
        permit: PermitId,
        ttl: Duration,
    ) -> Result<PermitChange, StoreError> {
        let wall_lead = self.lead();
        let renewed = self.process.call(RenewPermit { tenant, name, permit, ttl, wall_lead }).await?;
        self.process.due_in(ttl);
        Ok(renewed)
    }

    pub async fn settle(
        &self,
        (tenant, name): (TenantId, BudgetName),
        permit: PermitId,
        amount: Amount,
    ) -> Result<PermitChange, StoreError> {
        let settle = SettlePermit {
            tenant: tenant.clone(),
            name: name.clone(),
            permit,
            amount,
            wall_lead: self.lead(),
        };
        let settled = self.process.call(settle).await?;
        for warning in &settled.warnings {
            journal::budget_warned(&tenant, &name, warning);
        }
        self.wake_waiting(&tenant, settled.woken);
        let is_overdrawn = settled.has_ended && !settled.permit.overdraft().is_zero();
        if is_overdrawn {
            journal::overdrawn(&tenant, &name, &settled.permit);
        }
        Ok(settled)
    }

    pub async fn release(
        &self,
        (tenant, name): (TenantId, BudgetName),
        permit: PermitId,
    ) -> Result<PermitChange, StoreError> {
        let wall_lead = self.lead();
        let release = ReleasePermit { tenant: tenant.clone(), name, permit, wall_lead };
        let released = self.process.call(release).await?;
        self.wake_waiting(&tenant, released.woken);
        Ok(released)
    }

    /// Has waiting jobs looked at that a call has made due. A lost wake-up costs them one poll.
    fn wake_waiting(&self, tenant: &TenantId, woken: u32) {
        if woken > 0 {
            self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
        }
    }

    /// Adds to what may be spent, or takes from it.
    pub async fn adjust(&self, request: AdjustRequest) -> Result<LedgerState, BudgetError> {
        let AdjustRequest { tenant, name, by, delta, reason, until, run, key, request } = request;
        let id = match &request {
            Some(request) => permit_id(&tenant, &name, request),
            None => self.process.identity.adjustment(),
        };
        let mut now = self.process.wall();
        check_adjustment(delta, until, now)?;
        for _ in 0..TRIES_MAX {
            let budget = self.read(&tenant, &name).await?;
            let group = adjusted_group(&budget.document, (run, key.as_deref()), until.is_some())?;
            let adjust = AdjustBudget {
                tenant: tenant.clone(),
                name: name.clone(),
                revision: budget.revision,
                window: window_of(&budget.document, now)?,
                adjustment: Adjustment {
                    id: id.clone(),
                    by: by.clone(),
                    delta,
                    reason: reason.clone(),
                    until,
                    group,
                },
                wall_lead: self.lead(),
            };
            match self.process.call(adjust.clone()).await? {
                Adjusted::Done { state } => {
                    journal::adjusted(&tenant, &name, &adjust.adjustment);
                    self.process.wake(Wake::JobsHeld { tenant });
                    return Ok(state);
                }
                Adjusted::Outdated => {}
                Adjusted::WindowOver { now: by_the_store } => now = by_the_store,
                Adjusted::TooMany { what, most } => return Err(too_many(&name, what, most)),
            }
        }
        Err(storm(&name))
    }
}

fn window_of(document: &BudgetDocument, now: Timestamp) -> Result<Window, BudgetError> {
    let beyond = || BudgetError::Invalid("the calendar of the budget does not reach this time".to_owned());
    document.window_at(now).ok_or_else(beyond)
}

/// The group of a reservation, and the run whose amount it is.
fn group_of(
    document: &BudgetDocument,
    run: Option<RunId>,
    key: Option<&str>,
) -> Result<(Option<RunId>, BudgetGroup), BudgetError> {
    let run = match (document.per, run) {
        (Period::Run, None) => {
            return Err(BudgetError::Invalid("run_id: needed, the budget is per run".to_owned()));
        }
        (Period::Run, run) => run,
        (Period::Hour | Period::Day | Period::Month | Period::Total, _) => None,
    };
    match (&document.key, key) {
        (Some(_), None) => {
            Err(BudgetError::Invalid("key: needed, the budget has an amount per key".to_owned()))
        }
        (None, Some(_)) => Err(BudgetError::Invalid("key: the budget has one amount for all".to_owned())),
        (_, key) => {
            let group =
                BudgetGroup::new(run, key).map_err(|error| BudgetError::Invalid(error.to_string()))?;
            Ok((run, group))
        }
    }
}

fn check_adjustment(delta: Delta, until: Option<Timestamp>, now: Timestamp) -> Result<(), BudgetError> {
    let invalid = |reason: &str| Err(BudgetError::Invalid(reason.to_owned()));
    if delta.is_zero() {
        return invalid("delta: 0 changes nothing");
    }
    let Some(until) = until else { return Ok(()) };
    if delta.is_negative() {
        return invalid("delta: an adjustment with `until` is an increase, which is more than 0");
    }
    if until <= now || until.since(now) > INCREASE_MAX {
        return invalid("until: a time in the future, at most 366 days from now");
    }
    Ok(())
}

/// Only a temporary increase can be for everyone where each has an amount.
fn adjusted_group(
    document: &BudgetDocument,
    (run, key): (Option<RunId>, Option<&str>),
    is_temporary: bool,
) -> Result<Option<BudgetGroup>, BudgetError> {
    if is_temporary && run.is_none() && key.is_none() {
        return Ok(None);
    }
    group_of(document, run, key).map(|(_, group)| Some(group))
}
