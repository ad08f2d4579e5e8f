//! What a judgement reads, and what it says.

use std::time::Duration;

use interlock_model::job::Job;
use interlock_model::run::Head;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, RunId, TenantId, Timestamp};
use serde::de::DeserializeOwned;

use super::super::rows;
use super::super::tables::{Changes, Pick, Row, Table, View, end_of};
use crate::StoreError;

/// Rows that are held in memory at once while many are gone through.
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
    /// Why the store cannot put it right.
    ByHand(&'static str),
}

impl Fault {
    pub(in super::super) fn new(detail: impl Into<String>, changes: Changes) -> Self {
        Self { detail: detail.into(), remedy: Remedy::Write(changes) }
    }
}

/// A row that may be there, and may be damaged. What cannot be read is not judged: it is told as damaged.
pub(in super::super) enum Known<T> {
    Absent,
    Is(T),
    Unreadable,
}

/// Where a run stands, as far as others depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Standing {
    Live,
    Ended,
    /// It never was, or was deleted.
    Gone,
    Unreadable,
}

impl Standing {
    /// Why nothing may belong to it any more; none if it lives, or cannot be read.
    pub(in super::super) fn why_over(self) -> Option<&'static str> {
        match self {
            Self::Live | Self::Unreadable => None,
            Self::Ended => Some("the run has ended"),
            Self::Gone => Some("the run is not there"),
        }
    }
}

/// The rows of a tenant at one moment.
#[derive(Clone, Copy)]
pub(in super::super) struct Look<'a> {
    pub(in super::super) view: &'a dyn View,
    pub(in super::super) now: Timestamp,
    pub(in super::super) tenant: &'a TenantId,
    pub(in super::super) grace: Duration,
    /// The row that the look has come to. None: one subject is judged by itself, to be mended.
    pub(in super::super) at: Option<(Table, &'a Row)>,
}

impl Look<'_> {
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

    pub(in super::super) fn is_there(&self, table: Table, key: &str) -> Result<bool, StoreError> {
        Ok(self.view.get(table, key)?.is_some())
    }

    pub(super) fn head(&self, run: RunId) -> Result<Known<Head>, StoreError> {
        self.read(Table::Heads, &rows::run(self.tenant, run))
    }

    pub(in super::super) fn standing(&self, run: RunId) -> Result<Standing, StoreError> {
        Ok(match self.head(run)? {
            Known::Absent => Standing::Gone,
            Known::Unreadable => Standing::Unreadable,
            Known::Is(head) if head.status.is_final() => Standing::Ended,
            Known::Is(_) => Standing::Live,
        })
    }

    pub(super) fn job(&self, job: &JobId) -> Result<Known<Job>, StoreError> {
        self.read(Table::Jobs, &rows::job(self.tenant, job))
    }

    /// The job, if it is there, can be read, and is open.
    pub(super) fn open_job(&self, job: &JobId) -> Result<Option<Job>, StoreError> {
        Ok(match self.job(job)? {
            Known::Is(job) if job.end.is_none() => Some(job),
            Known::Is(_) | Known::Absent | Known::Unreadable => None,
        })
    }

    /// The tenant's own row, if it can be read.
    pub(super) fn own_row(&self) -> Result<Option<Tenant>, StoreError> {
        Ok(match self.read(Table::Tenants, self.tenant.as_str())? {
            Known::Is(tenant) => Some(tenant),
            Known::Absent => Some(Tenant::default()),
            Known::Unreadable => None,
        })
    }

    pub(super) fn is_past_grace(&self, at: Timestamp) -> bool {
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

    /// The keys of a table without a place of its own for `subject` that end in it. A look knows only the one that it has
    /// come to; to mend, all are wanted.
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

    pub(super) fn of_run(
        &self,
        subject: &str,
        judge: fn(&Self, RunId) -> Result<Option<Fault>, StoreError>,
    ) -> Result<Option<Fault>, StoreError> {
        subject.parse().map_or(Ok(None), |run| judge(self, run))
    }

    pub(super) fn of_job(
        &self,
        subject: &str,
        judge: fn(&Self, &JobId) -> Result<Option<Fault>, StoreError>,
    ) -> Result<Option<Fault>, StoreError> {
        subject.parse().map_or(Ok(None), |job| judge(self, &job))
    }

    pub(super) fn of_tenant(
        &self,
        subject: &str,
        judge: fn(&Self) -> Result<Option<Fault>, StoreError>,
    ) -> Result<Option<Fault>, StoreError> {
        if subject == self.tenant.as_str() { judge(self) } else { Ok(None) }
    }
}
