//! Rows that an invariant is about, a page at a time: of one tenant, or of all.

use std::time::Duration;

use interlock_model::doctor::{Finding, Invariant};
use interlock_model::{TenantId, Timestamp};

use super::super::store::Look;
use super::super::tables::{Pick, Row, Table, View};
use super::{Fault, Inspection, Remedy, Rule, check, rule, subject};
use crate::verbs::{Inspect, InspectUnlisted};
use crate::{Page, PageRequest, StoreError};

/// The tables that [`InspectUnlisted`] looks at.
const UNLISTED: [Table; 2] = [Table::IdempotencyKeys, Table::Queue];

/// After every key: the keys of tenants are printable ASCII.
const AFTER_ALL: &str = "\u{7f}";

const NOTHING: Page<Finding> = Page { items: Vec::new(), next: None };

/// Which rows are checked, and for what.
struct RowPage<'a> {
    view: &'a dyn View,
    now: Timestamp,
    /// None: the rows of every tenant.
    tenant: Option<&'a TenantId>,
    invariant: Invariant,
    grace: Duration,
    page: &'a PageRequest,
}

impl Look for Inspect {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Page<Finding>, StoreError> {
        let Self { tenant, invariant, grace, page } = self;
        let Some(rule) = rule(*invariant) else { return Ok(NOTHING) };
        let Some(tables) = rule.tables() else {
            let look = Inspection { view, now, tenant, grace: *grace, at: None };
            let fault = check(&look, &rule, tenant.as_str())?;
            let finding = fault.map(|fault| finding(*invariant, tenant.clone(), tenant.to_string(), fault));
            return Ok(Page { items: finding.into_iter().collect(), next: None });
        };
        let tables: Vec<_> = tables.iter().copied().filter(|table| !UNLISTED.contains(table)).collect();
        let (tenant, invariant, grace) = (Some(tenant), *invariant, *grace);
        RowPage { view, now, tenant, invariant, grace, page }.check(&rule, &tables)
    }
}

impl Look for InspectUnlisted {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Page<Finding>, StoreError> {
        let Self { tenant, invariant, grace, page } = self;
        let Some(rule) = rule(*invariant) else { return Ok(NOTHING) };
        let tables = rule.tables().unwrap_or_default().iter().copied();
        let tables: Vec<_> = tables.filter(|table| UNLISTED.contains(table)).collect();
        let (tenant, invariant, grace) = (tenant.as_ref(), *invariant, *grace);
        RowPage { view, now, tenant, invariant, grace, page }.check(&rule, &tables)
    }
}

impl RowPage<'_> {
    fn look<'a>(&'a self, tenant: &'a TenantId, at: Option<(Table, &'a Row)>) -> Inspection<'a> {
        Inspection { view: self.view, now: self.now, tenant, grace: self.grace, at }
    }

    fn range(&self, table: Table) -> (String, String) {
        self.tenant.map_or_else(
            || (String::new(), AFTER_ALL.to_owned()),
            |tenant| self.look(tenant, None).range(table),
        )
    }

    fn check(&self, rule: &Rule, tables: &[Table]) -> Result<Page<Finding>, StoreError> {
        let mut items = Vec::new();
        let mut left = self.page.limit.max(1);
        let after = self.page.after.as_deref().and_then(|after| after.split_once(' '));
        let first =
            after.and_then(|(name, _)| tables.iter().position(|table| table.name() == name)).unwrap_or(0);
        for (position, table) in tables.iter().copied().enumerate().skip(first) {
            let (from, until) = self.range(table);
            // The first key after another is that one with the smallest character behind it.
            let from = after.filter(|_| position == first).map_or(from, |(_, key)| format!("{key}\0"));
            let found = self.view.scan(table, &from, &until, Pick::First(left))?;
            for row in &found {
                items.extend(self.check_row(rule, table, row)?);
            }
            left -= found.len();
            if let Some(last) = found.last().filter(|_| left == 0) {
                return Ok(Page { items, next: Some(format!("{} {}", table.name(), last.key)) });
            }
        }
        Ok(Page { items, next: None })
    }

    fn check_row(&self, rule: &Rule, table: Table, row: &Row) -> Result<Option<Finding>, StoreError> {
        let named = || row.key.split('/').next().and_then(|name| name.parse().ok());
        let Some(tenant) = self.tenant.cloned().or_else(named) else { return Ok(None) };
        let look = self.look(&tenant, Some((table, row)));
        let Some(subject) = subject(&look, self.invariant, table, row) else { return Ok(None) };
        let fault = check(&look, rule, &subject)?;
        Ok(fault.map(|fault| finding(self.invariant, tenant.clone(), subject, fault)))
    }
}

fn finding(invariant: Invariant, tenant: TenantId, subject: String, fault: Fault) -> Finding {
    let is_repairable = matches!(fault.remedy, Remedy::Write(_));
    Finding { invariant, tenant: Some(tenant), subject, detail: fault.detail, is_repairable }
}
