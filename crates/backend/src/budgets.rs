//! Budgets: documents, the ledger of each, and the permits that reserve from it.
//!
//! Windows and increases follow the wall clock: each verb says how far that is ahead of the store's. Permits expire by the
//! store's clock.

use std::time::Duration;

use interlock_model::budget::{
    Amount, BudgetDocument, BudgetGroup, Delta, Increase, Ledger, LedgerState, Permit, Warning, Window,
};
use interlock_model::{BudgetName, PermitId, RunId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// A budget with what is counted of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub name: BudgetName,
    pub document: BudgetDocument,
    /// Raised with every change of the document.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Temporary ones, those that are over included until the next one comes.
    pub increases: Vec<Increase>,
    /// Permits that are open, and those that have ended and are remembered.
    pub open: u32,
    pub ended: u32,
    /// Ledgers that are kept.
    pub groups: u32,
    /// Adjustments and warnings so far.
    pub events: u64,
    /// Thresholds that were reached so far, and settlements of more than was reserved.
    #[serde(default)]
    pub warnings: u64,
    #[serde(default)]
    pub overdrafts: u64,
    /// The name of the window in which something was last reserved, whose total is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
}

/// A budget, and the total of its newest window.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BudgetView {
    pub budget: Budget,
    pub total: Ledger,
}

/// One ledger of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLedger {
    pub group: BudgetGroup,
    pub state: LedgerState,
}

/// What is kept of what happened to a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetEvent {
    pub at: Timestamp,
    pub kind: BudgetEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetEventKind {
    Adjusted(Adjustment),
    /// A threshold was reached.
    Warned(Warning),
}

/// What an operator changed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// Unique to the request, so that a repeated one changes nothing.
    pub id: PermitId,
    pub by: String,
    pub delta: Delta,
    pub reason: String,
    /// Until when it is in force. None: it is in force as long as the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whose amount it is. None: everyone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<BudgetGroup>,
}

/// The answer to a request for a permit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Reserved {
    /// Granted now, or before for the same request.
    Granted { permit: Permit, state: LedgerState, is_replay: bool },
    /// Less is left than the request needs.
    Exhausted {
        state: LedgerState,
        now: Timestamp,
        /// Jobs that wait for it longer than this one, as far as they are counted.
        #[serde(default)]
        ahead: u32,
    },
    /// The document has changed since the caller read it.
    Outdated,
    /// The window is another by now, which is this time by the wall clock.
    WindowOver { now: Timestamp },
    /// There are as many of these as there may be.
    TooMany { what: BudgetBound, most: u32 },
    /// The run does not exist, or has ended.
    RunOver { is_known: bool },
}

/// What one budget can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetBound {
    OpenPermits,
    Groups,
}

/// A permit, its ledger, and the thresholds that were just reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PermitChange {
    pub permit: Permit,
    pub state: LedgerState,
    /// Whether this very call ended it, or changed how it ended.
    pub has_ended: bool,
    pub warnings: Vec<Warning>,
    /// Waiting jobs that may look again.
    pub woken: u32,
}

/// What the passing of time did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ExpiredPermits {
    /// Permits that expired, and windows that were looked at.
    pub due: usize,
    pub expired: usize,
    pub warnings: Vec<(BudgetName, Warning)>,
}

/// Creates a budget, or replaces its document. What was reserved and spent stays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveBudget {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub document: BudgetDocument,
    /// The revision that is replaced. None: whatever it is.
    pub expected: Option<u64>,
}
verb!(write => SaveBudget, "save_budget", "save a budget", Budget);

/// Removes a budget with its ledger and its permits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteBudget {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub expected: Option<u64>,
}
verb!(write => DeleteBudget, "delete_budget", "delete a budget", ());

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadBudget {
    pub tenant: TenantId,
    pub name: BudgetName,
}
verb!(read => ReadBudget, "read_budget", "read a budget", Option<BudgetView>);

/// The tenant's budgets, by name; there are at most [`BUDGETS_MAX`](interlock_model::budget::BUDGETS_MAX).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListBudgets {
    pub tenant: TenantId,
}
verb!(read => ListBudgets, "list_budgets", "list budgets", Vec<BudgetView>);

/// The ledgers of one window, by their groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListBudgetGroups {
    pub tenant: TenantId,
    pub name: BudgetName,
    /// The name of the window.
    pub window: String,
    pub wall_lead: i64,
    /// None: a page of all. Else this one alone, whether or not anything was reserved for it.
    pub only: Option<BudgetGroup>,
    pub page: PageRequest,
}
verb!(read => ListBudgetGroups, "list_budget_groups", "read the ledger of a budget", Page<GroupLedger>);

/// Adjustments and warnings, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListBudgetEvents {
    pub tenant: TenantId,
    pub name: BudgetName,
}
verb!(read => ListBudgetEvents, "list_budget_events", "read what happened to a budget", Vec<BudgetEvent>);

/// Reserves from a budget: looks at the ledger and writes permit and ledger, or neither.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReserveBudget {
    pub tenant: TenantId,
    pub name: BudgetName,
    /// Of the document that the window was computed by.
    pub revision: u64,
    pub window: Window,
    pub group: BudgetGroup,
    /// The run whose amount it is.
    pub run: Option<RunId>,
    /// The same request has the same id.
    pub permit: PermitId,
    pub amount: Amount,
    /// What is granted if less than the amount is left.
    pub least: Amount,
    #[serde(serialize_with = "wire::as_millis")]
    pub ttl: Duration,
    pub wall_lead: i64,
}
verb!(write => ReserveBudget, "reserve_budget", "reserve from a budget", Reserved);

/// Extends an open permit to `ttl` from now. One that has expired stays so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RenewPermit {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub permit: PermitId,
    #[serde(serialize_with = "wire::as_millis")]
    pub ttl: Duration,
    pub wall_lead: i64,
}
verb!(write => RenewPermit, "renew_permit", "renew a permit", PermitChange);

/// Counts what was spent, however much it is, and ends the permit. Repeated, it counts once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettlePermit {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub permit: PermitId,
    pub amount: Amount,
    pub wall_lead: i64,
}
verb!(write => SettlePermit, "settle_permit", "settle a permit", PermitChange);

/// Ends a permit of which nothing was spent. One that was settled stays so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleasePermit {
    pub tenant: TenantId,
    pub name: BudgetName,
    pub permit: PermitId,
    pub wall_lead: i64,
}
verb!(write => ReleasePermit, "release_permit", "release a permit", PermitChange);

/// Changes what may be spent, for this window or until a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdjustBudget {
    pub tenant: TenantId,
    pub name: BudgetName,
    /// Of the document that the window was computed by.
    pub revision: u64,
    pub window: Window,
    pub adjustment: Adjustment,
    pub wall_lead: i64,
}
verb!(write => AdjustBudget, "adjust_budget", "adjust a budget", Adjusted);

/// The answer to an adjustment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Adjusted {
    Done { state: LedgerState },
    Outdated,
    WindowOver { now: Timestamp },
    TooMany { what: BudgetBound, most: u32 },
}

/// Ends the permits of a tenant whose time has come, and removes windows that are over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpirePermits {
    pub tenant: TenantId,
    pub limit: usize,
    pub wall_lead: i64,
}
verb!(write => ExpirePermits, "expire_permits", "expire permits", ExpiredPermits);

/// The wall clock, by the clock of the store.
pub(crate) fn wall(now: Timestamp, lead: i64) -> Timestamp {
    let size = Duration::from_millis(lead.unsigned_abs());
    if lead >= 0 { now + size } else { now - size }
}
