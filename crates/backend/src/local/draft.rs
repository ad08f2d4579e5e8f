//! A decision about one tenant, in the making.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use interlock_model::budget::BudgetGroup;
use interlock_model::tenant::Tenant;
use interlock_model::{BudgetName, Fence, JobId, RunId, TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::budgets::EndedPermit;
use super::tables::{Changes, Decided, Decision, Pick, Row, Table, View, read, scan_prefix};
use super::{rows, slots, tenants};
use crate::StoreError;

/// Decides a verb of one tenant on a draft: `decide!(FireTimers, |verb, draft| …)`.
macro_rules! decide {
    ($verb:ident, |$this:ident, $draft:ident| $answer:expr) => {
        impl $crate::local::Decide for $verb {
            fn decide(
                &self,
                view: &dyn $crate::local::View,
                now: interlock_model::Timestamp,
            ) -> $crate::local::Decided<Self::Answer> {
                fn decide(
                    $this: &$verb,
                    $draft: &mut $crate::local::draft::Draft<'_>,
                ) -> Result<<$verb as $crate::Verb>::Answer, $crate::StoreError> {
                    $answer
                }
                let mut draft = $crate::local::draft::Draft::new(view, now, &self.tenant);
                let answer = decide(self, &mut draft)?;
                draft.answer(answer)
            }
        }
    };
}
pub(super) use decide;

/// What a decision reads, the time, and what it wants written so far. The files of the nouns add what can be done with
/// theirs.
pub(super) struct Draft<'a> {
    pub(super) view: &'a dyn View,
    pub(super) now: Timestamp,
    pub(super) id: &'a TenantId,
    pub(super) changes: Changes,
    pub(super) groups: slots::LoadedGroups,
    pub(super) overlay: slots::Overlay,
    /// The number of the last event in each inbox that something was posted to.
    pub(super) posted: BTreeMap<RunId, u64>,
    /// Kept events that a commit has taken.
    pub(super) taken_events: BTreeSet<String>,
    /// Runs that got their slots so far.
    pub(super) granted: u32,
    /// Queued runs that were looked at for it.
    pub(super) grant_steps: u32,
    /// Queued runs that it has moved, because the order of their queue has changed.
    pub(super) reordered: usize,
    /// Permits whose jobs end.
    pub(super) ended_permits: Vec<EndedPermit>,
    /// Amounts that a job no longer waits for.
    pub(super) left_budgets: BTreeSet<(BudgetName, BudgetGroup)>,
    /// Jobs that no longer wait for a budget, whatever their rows say.
    pub(super) unheld: BTreeSet<JobId>,
    tenant: Option<Loaded>,
}

struct Loaded {
    row: Tenant,
    before: Tenant,
}

impl<'a> Draft<'a> {
    pub(super) fn new(view: &'a dyn View, now: Timestamp, id: &'a TenantId) -> Self {
        Self {
            view,
            now,
            id,
            changes: Changes::default(),
            groups: slots::LoadedGroups::default(),
            overlay: slots::Overlay::default(),
            posted: BTreeMap::new(),
            taken_events: BTreeSet::new(),
            granted: 0,
            grant_steps: 0,
            reordered: 0,
            ended_permits: Vec::new(),
            left_budgets: BTreeSet::new(),
            unheld: BTreeSet::new(),
            tenant: None,
        }
    }

    pub(super) fn has(&self, table: Table, key: &str) -> Result<bool, StoreError> {
        Ok(self.view.get(table, key)?.is_some())
    }

    pub(super) fn read<T: DeserializeOwned>(&self, table: Table, key: &str) -> Result<Option<T>, StoreError> {
        read(self.view, table, key)
    }

    /// Reads a row that must exist, or names what is not found.
    pub(super) fn require<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &str,
        (noun, id): (&'static str, &dyn Display),
    ) -> Result<T, StoreError> {
        self.read(table, key)?.ok_or_else(|| StoreError::not_found(noun, id))
    }

    pub(super) fn scan_tenant(&self, table: Table, pick: Pick) -> Result<Vec<Row>, StoreError> {
        scan_prefix(self.view, table, &rows::of_tenant(self.id), pick)
    }

    /// Rows of a time-ordered table that are due by `time`.
    pub(super) fn due(&self, table: Table, time: Timestamp, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.view.scan(table, &rows::of_tenant(self.id), &rows::after(self.id, time), Pick::First(limit))
    }

    pub(super) fn put(&mut self, table: Table, key: impl Into<String>, value: &impl Serialize) {
        self.changes.put(table, key, value);
    }

    pub(super) fn mark(&mut self, table: Table, key: impl Into<String>) {
        self.changes.mark(table, key);
    }

    pub(super) fn delete(&mut self, table: Table, key: impl Into<String>) {
        self.changes.delete(table, key);
    }

    pub(super) fn delete_all(&mut self, table: Table, keys: impl IntoIterator<Item = String>) {
        keys.into_iter().for_each(|key| self.delete(table, key));
    }

    /// The tenant's own row. What is changed in it is written with the answer.
    pub(super) fn tenant(&mut self) -> Result<&mut Tenant, StoreError> {
        if self.tenant.is_none() {
            let row = slots::tenant(self.view, self.id)?;
            self.tenant = Some(Loaded { before: row.clone(), row });
        }
        Ok(&mut self.tenant.as_mut().expect("it was just loaded").row)
    }

    pub(super) fn mint_fence(&mut self) -> Result<Fence, StoreError> {
        let now = self.now;
        Ok(self.tenant()?.mint_fence(now))
    }

    pub(super) fn into_changes(mut self) -> Result<Changes, StoreError> {
        self.end_budgets()?;
        self.write_groups()?;
        if let Some(Loaded { row, before }) = self.tenant
            && row != before
        {
            tenants::register(self.view, &mut self.changes, self.id)?;
            self.changes.put(Table::Tenants, self.id.as_str(), &row);
        }
        Ok(self.changes)
    }

    pub(super) fn answer<R>(self, answer: R) -> Decided<R> {
        Ok(Decision { answer, changes: self.into_changes()? })
    }
}
