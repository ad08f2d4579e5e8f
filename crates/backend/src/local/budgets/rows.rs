//! Keys of the rows of budgets.

use interlock_model::budget::BudgetGroup;
use interlock_model::dispatch_policy::BudgetPlace;
use interlock_model::{BudgetName, JobId, PermitId, TenantId, Timestamp};

pub(super) fn budget(tenant: &TenantId, name: &BudgetName) -> String {
    format!("{tenant}/{name}")
}

/// What all rows of a budget begin with, in the tables that have more than one.
pub(super) fn of_budget(tenant: &TenantId, name: &BudgetName) -> String {
    format!("{tenant}/{name}/")
}

/// The ledger at `window/group`.
pub(super) fn ledger(tenant: &TenantId, name: &BudgetName, place: &str) -> String {
    format!("{tenant}/{name}/{place}")
}

pub(super) fn permit(tenant: &TenantId, name: &BudgetName, id: &PermitId) -> String {
    format!("{tenant}/{name}/{id}")
}

pub(super) fn ended(tenant: &TenantId, name: &BudgetName, at: Timestamp, id: &PermitId) -> String {
    format!("{tenant}/{name}/{:015}/{id}", at.as_millis())
}

/// What the rows of all jobs begin with that wait for this amount.
pub(super) fn queue(tenant: &TenantId, name: &BudgetName, group: &BudgetGroup) -> String {
    format!("{tenant}/{name}/{group}/")
}

pub(super) fn waiting(tenant: &TenantId, place: &BudgetPlace, job: &JobId) -> String {
    let BudgetPlace { budget, group, since } = place;
    format!("{}{:015}/{job}", queue(tenant, budget, group), since.as_millis())
}

pub(super) fn event(tenant: &TenantId, name: &BudgetName, number: u64) -> String {
    format!("{tenant}/{name}/{number:010}")
}

/// What is due of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DueItem {
    /// An open permit expires.
    Permit(PermitId),
    /// The ledger at `window/group` is looked at.
    Ledger(String),
}

impl DueItem {
    pub(super) fn row(&self, tenant: &TenantId, at: Timestamp, name: &BudgetName) -> String {
        let (kind, what) = match self {
            Self::Permit(id) => ('p', id.as_str()),
            Self::Ledger(place) => ('l', place.as_str()),
        };
        format!("{tenant}/{:015}/{name}/{kind}.{what}", at.as_millis())
    }

    /// The budget and the item in the key of a row.
    pub(super) fn read(key: &str) -> Option<(BudgetName, Self)> {
        let mut parts = key.splitn(4, '/').skip(2);
        let (name, item) = (parts.next()?.parse().ok()?, parts.next()?);
        let (kind, what) = item.split_once('.')?;
        let item = match kind {
            "p" => Self::Permit(what.parse().ok()?),
            "l" => Self::Ledger(what.to_owned()),
            _ => return None,
        };
        Some((name, item))
    }
}
