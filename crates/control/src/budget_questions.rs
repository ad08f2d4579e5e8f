//! What a person is asked who may let a job go although its budget has too little left. It only reads.

use interlock_backend::budgets::BudgetView;
use interlock_backend::verbs::{ListBudgetGroups, ReadBudget};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::approval::AskedBudget;
use interlock_model::budget::{Amount, LedgerState, exhausted};
use interlock_model::{TenantId, Timestamp};

use crate::process::Process;

/// What is left of the amount now, and what the job would reserve.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetQuestion {
    pub asked: AskedBudget,
    pub unit: String,
    pub limit: Amount,
    pub remaining: Amount,
    pub resets_at: Option<Timestamp>,
    pub sentence: String,
}

/// None: there is no such budget any more.
pub async fn question(
    process: &Process,
    tenant: &TenantId,
    asked: AskedBudget,
) -> Result<Option<BudgetQuestion>, StoreError> {
    let (store, now) = (process.reader(), process.wall());
    let read = ReadBudget { tenant: tenant.clone(), name: asked.name.clone() };
    let Some(BudgetView { budget, .. }) = store.call(read).await? else { return Ok(None) };
    let Some(window) = budget.document.window_at(now) else { return Ok(None) };
    let list = ListBudgetGroups {
        tenant: tenant.clone(),
        name: asked.name.clone(),
        window: window.to_string(),
        wall_lead: process.clock.wall_lead(),
        only: Some(asked.group.clone()),
        page: PageRequest { limit: 1, after: None },
    };
    let found = store.call(list).await?.items.into_iter().next();
    let Some(state) = found.map(|group| group.state) else { return Ok(None) };
    let named = (budget.name.as_str(), &budget.document);
    let sentence = exhausted(named, (&asked.group, &window), (&state, 0), (asked.reserve, now));
    let LedgerState { limit, remaining, .. } = state;
    let unit = budget.document.unit;
    Ok(Some(BudgetQuestion { asked, unit, limit, remaining, resets_at: window.until, sentence }))
}
