//! Invariants of budgets: the ledger adds up, open permits expire or belong to an open job, and permits have a budget.

use std::collections::BTreeMap;

use interlock_model::budget::{Ledger, Permit, PermitEnd, PermitState};
use interlock_model::job::Job;
use interlock_model::{BudgetName, PermitId};

use super::super::inspection::{Checked, Inspection, Known};
use super::super::rows as all_rows;
use super::super::tables::{Pick, Table, scan_prefix};
use super::book::total_of;
use super::rows::{self, DueItem};
use super::steps::EndedPermit;
use crate::StoreError;
use crate::budgets::Budget;

/// What is written of a budget.
struct Written {
    budget: Budget,
    /// By `window/group`, totals included.
    ledgers: BTreeMap<String, Ledger>,
    permits: Vec<Permit>,
}

fn find(look: &Inspection<'_>, name: &BudgetName) -> Result<Known<Budget>, StoreError> {
    look.read(Table::Budgets, &rows::budget(look.tenant, name))
}

/// None: there is no such budget, or something of it cannot be read. That is reported as damaged.
fn written(look: &Inspection<'_>, name: &BudgetName) -> Result<Option<Written>, StoreError> {
    let Known::Is(budget) = find(look, name)? else { return Ok(None) };
    let all = rows::of_budget(look.tenant, name);
    let mut ledgers = BTreeMap::new();
    for row in scan_prefix(look.view, Table::BudgetLedgers, &all, Pick::First(usize::MAX))? {
        let Ok(ledger) = serde_json::from_str(&row.value) else { return Ok(None) };
        ledgers.insert(row.key[all.len()..].to_owned(), ledger);
    }
    let mut permits = Vec::new();
    for row in scan_prefix(look.view, Table::BudgetPermits, &all, Pick::First(usize::MAX))? {
        let Ok(permit) = serde_json::from_str(&row.value) else { return Ok(None) };
        permits.push(permit);
    }
    Ok(Some(Written { budget, ledgers, permits }))
}

impl Written {
    /// The same, with every number counted anew.
    fn counted(&self) -> (Budget, BTreeMap<String, Ledger>) {
        let groups = self.ledgers.iter().filter(|(place, _)| total_of(place) != **place);
        let mut ledgers: BTreeMap<String, Ledger> =
            groups.map(|(place, ledger)| (place.clone(), ledger.without_permits())).collect();
        let mut budget = Budget { open: 0, ended: 0, ..self.budget.clone() };
        for permit in &self.permits {
            let new = Ledger { ends_at: permit.window.until, ..Ledger::default() };
            ledgers.entry(permit.place()).or_insert(new).add(permit);
            if permit.state == PermitState::Open {
                budget.open += 1;
            } else {
                budget.ended += 1;
            }
        }
        budget.groups = u32::try_from(ledgers.len()).unwrap_or(u32::MAX);
        let mut totals: BTreeMap<String, Ledger> = BTreeMap::new();
        for (place, ledger) in &ledgers {
            totals.entry(total_of(place)).or_default().join(ledger);
        }
        ledgers.extend(totals);
        (budget, ledgers)
    }
}

/// Every counter of the budget is the sum of what it counts.
pub(in super::super) fn drift(look: &Inspection<'_>, subject: &str) -> Checked {
    let Ok(name) = subject.parse::<BudgetName>() else { return Ok(None) };
    let Some(written) = written(look, &name)? else { return Ok(None) };
    let (budget, ledgers) = written.counted();
    let wrong = ledgers.iter().filter(|(place, ledger)| written.ledgers.get(*place) != Some(ledger)).count();
    let extra: Vec<_> = written.ledgers.keys().filter(|place| !ledgers.contains_key(*place)).collect();
    if budget == written.budget && wrong + extra.len() == 0 {
        return Ok(None);
    }
    let detail =
        format!("{} counters of the budget are not the sum of its permits", (wrong + extra.len()).max(1));
    look.fault(detail, |draft| {
        let tenant = look.tenant;
        draft.put(Table::Budgets, rows::budget(tenant, &name), &budget);
        for (place, ledger) in &ledgers {
            draft.put(Table::BudgetLedgers, rows::ledger(tenant, &name, place), ledger);
        }
        for place in extra {
            draft.delete(Table::BudgetLedgers, rows::ledger(tenant, &name, place));
        }
    })
}

/// The open permit of a subject, which is the budget and the permit.
fn open_permit(look: &Inspection<'_>, subject: &str) -> Result<Option<(BudgetName, Permit)>, StoreError> {
    let read = |(name, id): (&str, &str)| Some((name.parse().ok()?, id.parse().ok()?));
    let named: Option<(BudgetName, PermitId)> = subject.split_once('/').and_then(read);
    let Some((name, id)) = named else { return Ok(None) };
    if !matches!(find(look, &name)?, Known::Is(_)) {
        return Ok(None);
    }
    let row = rows::permit(look.tenant, &name, &id);
    let Known::Is(permit) = look.read::<Permit>(Table::BudgetPermits, &row)? else { return Ok(None) };
    Ok((permit.state == PermitState::Open).then_some((name, permit)))
}

/// The open permit of a job ends with it.
pub(in super::super) fn without_job(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, permit)) = open_permit(look, subject)? else { return Ok(None) };
    let Some(id) = &permit.job else { return Ok(None) };
    let is_live = match look.read::<Job>(Table::Jobs, &all_rows::job(look.tenant, id))? {
        Known::Is(job) => job.end.is_none() && job.permit.as_ref() == Some(&permit.id),
        Known::Absent => false,
        // It is reported as damaged.
        Known::Unreadable => return Ok(None),
    };
    if is_live {
        return Ok(None);
    }
    look.try_fault("the permit is open, and its job is not", |draft| {
        draft.ended_permits.push(EndedPermit { budget: name, permit: permit.id, end: PermitEnd::Unsettled });
        Ok(())
    })
}

pub(in super::super) fn not_due(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, permit)) = open_permit(look, subject)? else { return Ok(None) };
    let Some(expires_at) = permit.expires_at else { return Ok(None) };
    let due = DueItem::Permit(permit.id).row(look.tenant, expires_at, &name);
    look.missing(Table::BudgetDue, due, "the permit is open and never expires".to_owned())
}

/// The subject is the budget.
pub(in super::super) fn without_budget(look: &Inspection<'_>, subject: &str) -> Checked {
    let Ok(name) = subject.parse::<BudgetName>() else { return Ok(None) };
    let all = rows::of_budget(look.tenant, &name);
    let permits = scan_prefix(look.view, Table::BudgetPermits, &all, Pick::First(usize::MAX))?;
    if permits.is_empty() || !matches!(find(look, &name)?, Known::Absent) {
        return Ok(None);
    }
    let detail = format!("{} permits name a budget that does not exist", permits.len());
    look.try_fault(detail, |draft| draft.delete_rows_of_budget(&name))
}
