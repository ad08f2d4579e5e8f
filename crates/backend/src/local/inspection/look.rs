//! What a check reads, and what it finds.

use std::time::Duration;

use interlock_model::job::Job;
use interlock_model::run::Head;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, RunId, TenantId, Timestamp};
use serde::de::DeserializeOwned;

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::{Changes, Pick, Row, Table, View, end_of};
use crate::StoreError;

/// Rows that are in memory at once while a whole table is read.
const ROWS_AT_ONCE: usize = 1_000;

/// What is wrong with a subject.
#[derive(Debug)]
pub(in super::super) struct Fault {
    /// One sentence for people.
    pub(in super::super) detail: String,
    pub(in super::super) remedy: Remedy,
}

#[derive(Debug)]
pub(in super::super) enum Remedy {
    Write(Changes),
    /// Why the store cannot repair it.
    ByHand(&'static str),
}

/// What a check finds: nothing, or a fault.
pub(in super::super) type Checked = Result<Option<Fault>, StoreError>;

/// A row that may exist, and may be damaged. What cannot be read is only reported as damaged.
pub(in super::super) enum Known<T> {
    Absent,
    Is(T),
    Unreadable,
}

/// The state of a run, as far as other rows depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum RunState {
    Live,
    Ended,
    /// It never existed, or was deleted.
    Missing,
    Unreadable,
}

impl RunState {
    /// Why nothing may belong to it any more; none if it is live, or cannot be read.
    pub(in super::super) fn why_over(self) -> Option<&'static str> {
        match self {
            Self::Live | Self::Unreadable => None,
            Self::Ended => Some("the run has ended"),
            Self::Missing => Some("the run does not exist"),
        }
    }
}

/// The rows of a tenant at one moment.
#[derive(Clone, Copy)]
pub(in super::super) struct Inspection<'a> {
    pub(in super::super) view: &'a dyn View,
    pub(in super::super) now: Timestamp,
    pub(in super::super) tenant: &'a TenantId,
    pub(in super::super) grace: Duration,
    /// The row that is checked. None: one subject is checked by itself, to be repaired.
    pub(in super::super) at: Option<(Table, &'a Row)>,
}

impl Inspection<'_> {
    pub(in super::super) fn read<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &str,
    ) -> Result<Known<T>, StoreError> {
        Ok(match self.view.get(table, key)? {
            None => Known::Absent,
            Some(value) => serde_json::from_str(&value).map_or(Known::Unreadable, Known::Is),
        })
    }

    pub(in super::super) fn has(&self, table: Table, key: &str) -> Result<bool, StoreError> {
        Ok(self.view.get(table, key)?.is_some())
    }

    pub(super) fn head(&self, run: RunId) -> Result<Known<Head>, StoreError> {
        self.read(Table::Heads, &rows::run(self.tenant, run))
    }

    pub(in super::super) fn run_state(&self, run: RunId) -> Result<RunState, StoreError> {
        Ok(match self.head(run)? {
            Known::Absent => RunState::Missing,
            Known::Unreadable => RunState::Unreadable,
            Known::Is(head) if head.status.is_final() => RunState::Ended,
            Known::Is(_) => RunState::Live,
        })
    }

    pub(super) fn draft(&self) -> Draft<'_> {
        Draft::new(self.view, self.now, self.tenant)
    }

    /// A fault, and what repairs it.
    pub(in super::super) fn fault(
        &self,
        detail: impl Into<String>,
        repair: impl FnOnce(&mut Draft<'_>),
    ) -> Checked {
        self.try_fault(detail, |draft| {
            repair(draft);
            Ok(())
        })
    }

    pub(in super::super) fn try_fault(
        &self,
        detail: impl Into<String>,
        repair: impl FnOnce(&mut Draft<'_>) -> Result<(), StoreError>,
    ) -> Checked {
        let mut draft = Draft::new(self.view, self.now, self.tenant);
        repair(&mut draft)?;
        Ok(Some(Fault { detail: detail.into(), remedy: Remedy::Write(draft.into_changes()?) }))
    }

    /// A fault if an index has no mark at `key`, and the mark that repairs it.
    pub(in super::super) fn missing(&self, index: Table, key: String, detail: String) -> Checked {
        if self.has(index, &key)? { Ok(None) } else { self.fault(detail, |draft| draft.mark(index, key)) }
    }

    pub(super) fn job(&self, job: &JobId) -> Result<Known<Job>, StoreError> {
        self.read(Table::Jobs, &rows::job(self.tenant, job))
    }

    /// The job, if it exists, can be read, and is open.
    pub(super) fn open_job(&self, job: &JobId) -> Result<Option<Job>, StoreError> {
        Ok(match self.job(job)? {
            Known::Is(job) if job.end.is_none() => Some(job),
            Known::Is(_) | Known::Absent | Known::Unreadable => None,
        })
    }

    /// The tenant's own row, if it can be read.
    pub(super) fn tenant_row(&self) -> Result<Option<Tenant>, StoreError> {
        Ok(match self.read(Table::Tenants, self.tenant.as_str())? {
            Known::Is(tenant) => Some(tenant),
            Known::Absent => Some(Tenant::default()),
            Known::Unreadable => None,
        })
    }

    pub(in super::super) fn is_past_grace(&self, at: Timestamp) -> bool {
        at + self.grace <= self.now
    }

    /// Where the tenant's rows of a table begin and end.
    pub(super) fn range(&self, table: Table) -> (String, String) {
        if matches!(table, Table::Tenants | Table::LockTallies) {
            // Their keys are the tenant and nothing more.
            return (self.tenant.to_string(), format!("{}\0", self.tenant));
        }
        let prefix = rows::of_tenant(self.tenant);
        let end = end_of(&prefix);
        (prefix, end)
    }

    /// Goes through all rows of the tenant in a table.
    pub(in super::super) fn each(&self, table: Table, mut visit: impl FnMut(Row)) -> Result<(), StoreError> {
        let (mut from, until) = self.range(table);
        loop {
            let found = self.view.scan(table, &from, &until, Pick::First(ROWS_AT_ONCE))?;
            let is_last = found.len() < ROWS_AT_ONCE;
            if let Some(last) = found.last() {
                from = format!("{}\0", last.key);
            }
            found.into_iter().for_each(&mut visit);
            if is_last {
                return Ok(());
            }
        }
    }

    pub(in super::super) fn count(&self, table: Table) -> Result<u32, StoreError> {
        let mut count = 0_u32;
        self.each(table, |_| count = count.saturating_add(1))?;
        Ok(count)
    }

    /// The keys of a table that end in `subject`. The check of a row knows only that row's; a repair needs all.
    pub(super) fn keys_of(&self, table: Table, subject: &str) -> Result<Vec<String>, StoreError> {
        if let Some((here, row)) = self.at {
            return Ok(if here == table { vec![row.key.clone()] } else { Vec::new() });
        }
        let mut keys = Vec::new();
        self.each(table, |row| {
            if rows::last_part(&row.key) == subject {
                keys.push(row.key);
            }
        })?;
        Ok(keys)
    }
}
