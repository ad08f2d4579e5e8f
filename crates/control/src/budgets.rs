//! Budgets: what may be spent is reserved before it is spent, and settled after.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::budgets::{
    Adjusted, Adjustment, Budget, BudgetBound, BudgetView, GroupLedger, PermitChange, Reserved,
};
use interlock_backend::verbs::{
    AdjustBudget, DeleteBudget, ListBudgetGroups, ReadBudget, ReleasePermit, RenewPermit, ReserveBudget,
    SaveBudget, SettlePermit,
};
use interlock_backend::{Page, PageRequest};
use interlock_model::budget::{
    Amount, BudgetDocument, BudgetGroup, Delta, InvalidBudget, LedgerState, Period, Permit, Window,
    exhausted, permit_id,
};
use interlock_model::{BudgetName, BudgetRequest, PermitId, RunId, TenantId, Timestamp};

use crate::journal;
use crate::process::Process;

/// A document may change, and a window end, between reading and reserving. More often is a storm.
const TRIES_MAX: usize = 5;

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

/// Too little is left.
#[derive(Debug, Clone, PartialEq)]
pub struct Exhausted {
    /// For people: what is left, who has the rest, when it resets.
    pub sentence: String,
    pub remaining: Amount,
    pub resets_at: Option<Timestamp>,
    /// How long until it resets, if nothing that is reserved is released before.
    pub resets_in: Option<Duration>,
    /// Whether there would be enough if what is reserved were not spent.
    pub may_be_released: bool,
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

/// Why a budget was not reserved from, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("{0}")]
    Invalid(String),
    #[error("{}", .0.sentence)]
    Exhausted(Box<Exhausted>),
    #[error("{0}")]
    TooMany(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InvalidBudget> for BudgetError {
    fn from(error: InvalidBudget) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl Budgets {
    pub async fn save(
        &self,
        (tenant, name): (TenantId, BudgetName),
        document: BudgetDocument,
        expected: Option<u64>,
    ) -> Result<Budget, BudgetError> {
        document.check()?;
        Ok(self.process.call(SaveBudget { tenant, name, document, expected }).await?)
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

    /// The wall clock. The store decides which window it is; this says which one to ask for first.
    fn wall(&self) -> Timestamp {
        let (now, lead) = (self.process.now(), self.lead());
        let size = Duration::from_millis(lead.unsigned_abs());
        if lead >= 0 { now + size } else { now - size }
    }

    async fn read(&self, tenant: &TenantId, name: &BudgetName) -> Result<Budget, BudgetError> {
        let found = self.process.call(ReadBudget { tenant: tenant.clone(), name: name.clone() }).await?;
        let missing = || StoreError::not_found("budget", name);
        Ok(found.map(|BudgetView { budget, .. }| budget).ok_or_else(missing)?)
    }

    /// The ledgers of the window that it is now, or that of one group.
    pub async fn groups(
        &self,
        (tenant, budget): (&TenantId, &Budget),
        only: Option<BudgetGroup>,
        page: PageRequest,
    ) -> Result<(Window, Page<GroupLedger>), BudgetError> {
        let window = window_of(&budget.document, self.wall())?;
        let list = ListBudgetGroups {
            tenant: tenant.clone(),
            name: budget.name.clone(),
            window: window.to_string(),
            wall_lead: self.lead(),
            only,
            page,
        };
        Ok((window, self.process.call(list).await?))
    }

    pub async fn reserve(&self, request: PermitRequest) -> Result<PermitGrant, BudgetError> {
        let PermitRequest { tenant, name, .. } = &request;
        let mut now = self.wall();
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
                Reserved::Exhausted { state, now } => {
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
        if !settled.permit.overdraft().is_zero() {
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
        self.process.call(ReleasePermit { tenant, name, permit, wall_lead }).await
    }

    /// Adds to what may be spent, or takes from it.
    pub async fn adjust(&self, request: AdjustRequest) -> Result<LedgerState, BudgetError> {
        let AdjustRequest { tenant, name, by, delta, reason, until, run, key, request } = request;
        let id = match &request {
            Some(request) => permit_id(&tenant, &name, request),
            None => self.process.identity.adjustment(),
        };
        let mut now = self.wall();
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

fn refusal(
    budget: &Budget,
    (group, window): (&BudgetGroup, &Window),
    state: &LedgerState,
    (least, now): (Amount, Timestamp),
) -> Exhausted {
    let named = (budget.name.as_str(), &budget.document);
    Exhausted {
        sentence: exhausted(named, (group, window), state, (least, now)),
        remaining: state.remaining,
        resets_at: window.until,
        resets_in: window.until.map(|until| until.since(now)),
        may_be_released: state.remaining.plus(state.ledger.reserved) >= least
            && !state.ledger.reserved.is_zero(),
    }
}

fn too_many(name: &BudgetName, what: BudgetBound, most: u32) -> BudgetError {
    BudgetError::TooMany(match what {
        BudgetBound::OpenPermits => {
            format!("budget {name} has {most} open permits, the maximum; settle or release some")
        }
        BudgetBound::Groups => format!(
            "budget {name} has ledgers of {most} keys or runs, the maximum; those of windows that are over are removed \
             within hours"
        ),
    })
}

fn run_over(run: Option<RunId>, is_known: bool) -> BudgetError {
    let run = run.map(|run| run.to_string()).unwrap_or_default();
    if is_known {
        StoreError::Conflict(format!("run {run} has ended; nothing more can be reserved for it")).into()
    } else {
        StoreError::not_found("run", run).into()
    }
}

fn storm(name: &BudgetName) -> BudgetError {
    StoreError::Conflict(format!("budget {name} changes faster than it can be read; try again")).into()
}
