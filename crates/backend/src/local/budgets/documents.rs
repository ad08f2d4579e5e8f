//! The documents of budgets, and what is shown of them.

use interlock_model::budget::{BUDGETS_MAX, BudgetGroup, Ledger, limit};
use interlock_model::{BudgetName, TenantId};

use super::super::draft::{Draft, decide};
use super::super::rows::{last_part, of_tenant};
use super::super::store::{Look, look};
use super::super::tables::{Pick, Row, Table, View, end_of, parse, read, scan_prefix};
use super::rows;
use crate::budgets::{Budget, BudgetView, GroupLedger, wall};
use crate::verbs::{DeleteBudget, ListBudgetEvents, ListBudgetGroups, ListBudgets, ReadBudget, SaveBudget};
use crate::{Page, StoreError};

decide!(SaveBudget, |verb, draft| {
    let (tenant, name) = (&verb.tenant, &verb.name);
    let before: Option<Budget> = draft.read(Table::Budgets, &rows::budget(tenant, name))?;
    check_revision(before.as_ref(), verb.expected, name)?;
    if before.is_none() {
        if draft.scan_tenant(Table::Budgets, Pick::First(BUDGETS_MAX))?.len() >= BUDGETS_MAX {
            return Err(StoreError::Conflict(too_many()));
        }
        // The tenant comes into being with its first row.
        draft.mint_fence()?;
    }
    let now = draft.now;
    let budget = match before {
        Some(before) => Budget {
            document: verb.document.clone(),
            revision: before.revision + 1,
            updated_at: now,
            ..before
        },
        None => Budget {
            name: name.clone(),
            document: verb.document.clone(),
            revision: 1,
            created_at: now,
            updated_at: now,
            increases: Vec::new(),
            open: 0,
            ended: 0,
            groups: 0,
            events: 0,
            warnings: 0,
            overdrafts: 0,
            window: None,
        },
    };
    draft.put(Table::Budgets, rows::budget(tenant, name), &budget);
    draft.wake_all(name)?;
    Ok(budget)
});

fn too_many() -> String {
    format!("the tenant has {BUDGETS_MAX} budgets, the maximum; delete one first")
}

fn check_revision(
    budget: Option<&Budget>,
    expected: Option<u64>,
    name: &BudgetName,
) -> Result<(), StoreError> {
    match (expected, budget) {
        (None, _) => Ok(()),
        (Some(expected), Some(budget)) if budget.revision == expected => Ok(()),
        (Some(expected), Some(budget)) => Err(StoreError::Conflict(format!(
            "budget {name} has revision {}, not {expected}: read it again and repeat the change",
            budget.revision
        ))),
        (Some(_), None) => Err(StoreError::not_found("budget", name)),
    }
}

decide!(DeleteBudget, |verb, draft| {
    let (tenant, name) = (&verb.tenant, &verb.name);
    let budget: Option<Budget> = draft.read(Table::Budgets, &rows::budget(tenant, name))?;
    let budget = budget.ok_or_else(|| StoreError::not_found("budget", name))?;
    check_revision(Some(&budget), verb.expected, name)?;
    draft.delete(Table::Budgets, rows::budget(tenant, name));
    draft.delete_rows_of_budget(name)
});

impl Draft<'_> {
    /// Removes everything of a budget but its document.
    pub(super) fn delete_rows_of_budget(&mut self, name: &BudgetName) -> Result<(), StoreError> {
        let all = rows::of_budget(self.id, name);
        for table in [
            Table::BudgetLedgers,
            Table::BudgetPermits,
            Table::BudgetEnded,
            Table::BudgetQueue,
            Table::BudgetEvents,
        ] {
            for row in scan_prefix(self.view, table, &all, Pick::First(usize::MAX))? {
                self.delete(table, row.key);
            }
        }
        for row in self.scan_tenant(Table::BudgetDue, Pick::First(usize::MAX))? {
            if rows::DueItem::read(&row.key).is_some_and(|(of, _)| of == *name) {
                self.delete(Table::BudgetDue, row.key);
            }
        }
        Ok(())
    }
}

fn shown(view: &dyn View, tenant: &TenantId, budget: Budget) -> Result<BudgetView, StoreError> {
    let total = match &budget.window {
        None => None,
        Some(window) => {
            let place = format!("{window}/{}", BudgetGroup::all());
            read(view, Table::BudgetLedgers, &rows::ledger(tenant, &budget.name, &place))?
        }
    };
    Ok(BudgetView { budget, total: total.unwrap_or_default() })
}

look!(ReadBudget, |verb, view| {
    let found: Option<Budget> = read(view, Table::Budgets, &rows::budget(&verb.tenant, &verb.name))?;
    found.map(|budget| shown(view, &verb.tenant, budget)).transpose()
});

look!(ListBudgets, |verb, view| {
    let rows = scan_prefix(view, Table::Budgets, &of_tenant(&verb.tenant), Pick::First(BUDGETS_MAX))?;
    let budget = |row: &Row| shown(view, &verb.tenant, parse(Table::Budgets, &row.key, &row.value)?);
    rows.iter().map(budget).collect()
});

look!(ListBudgetEvents, |verb, view| {
    let all = rows::of_budget(&verb.tenant, &verb.name);
    let rows = scan_prefix(view, Table::BudgetEvents, &all, Pick::Last(usize::MAX))?;
    rows.iter().map(|row| parse(Table::BudgetEvents, &row.key, &row.value)).collect()
});

impl Look for ListBudgetGroups {
    fn look(
        &self,
        view: &dyn View,
        now: interlock_model::Timestamp,
    ) -> Result<Page<GroupLedger>, StoreError> {
        let Self { tenant, name, window, wall_lead, only, page } = self;
        let found: Option<Budget> = read(view, Table::Budgets, &rows::budget(tenant, name))?;
        let budget = found.ok_or_else(|| StoreError::not_found("budget", name))?;
        let now = wall(now, *wall_lead);
        let shown = |group: BudgetGroup, ledger: Ledger| {
            let limit = limit(budget.document.amount, &budget.increases, ledger.adjusted, (&group, now));
            GroupLedger { group, state: ledger.under(limit) }
        };
        if let Some(group) = only {
            let place = rows::ledger(tenant, name, &format!("{window}/{group}"));
            let ledger = read(view, Table::BudgetLedgers, &place)?.unwrap_or_default();
            return Ok(Page { items: vec![shown(group.clone(), ledger)], next: None });
        }
        let all = rows::of_budget(tenant, name) + window + "/";
        // The first key after another is that one with the smallest character behind it; the total comes first.
        let total = BudgetGroup::all().to_string();
        let from = format!("{all}{}\0", page.after.as_ref().unwrap_or(&total));
        let mut rows =
            view.scan(Table::BudgetLedgers, &from, &end_of(&all), Pick::First(page.limit.saturating_add(1)))?;
        let has_more = rows.len() > page.limit;
        rows.truncate(page.limit);
        let mut items = Vec::new();
        for row in &rows {
            let group = BudgetGroup::written(last_part(&row.key));
            items.push(shown(group, parse(Table::BudgetLedgers, &row.key, &row.value)?));
        }
        let next = items.last().filter(|_| has_more).map(|last: &GroupLedger| last.group.to_string());
        Ok(Page { items, next })
    }
}
