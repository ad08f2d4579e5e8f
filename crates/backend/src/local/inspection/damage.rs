//! Rows that cannot be read. The subject is the table and the key.

use interlock_model::admission::KeyRecord;
use interlock_model::approval::Approval;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::dispatch_policy::Hold;
use interlock_model::history::Event;
use interlock_model::job::{Job, JobLease};
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::step::StepRun;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, RunId, StepKey};
use serde::de::DeserializeOwned;

use super::super::deliveries::Deferred;
use super::super::locks;
use super::super::rows::{self, RunLease, WorkflowHead};
use super::super::tables::Table;
use super::{Checked, Fault, Inspection, Remedy};
use crate::workers::WorkerRecord;
use crate::workflows::WorkflowVersion;

/// Every table with rows of tenants.
pub(super) const TABLES: &[Table] = &[
    Table::Tenants,
    Table::WorkflowHeads,
    Table::WorkflowVersions,
    Table::IdempotencyKeys,
    Table::Starts,
    Table::Heads,
    Table::Steps,
    Table::Active,
    Table::Ready,
    Table::Inbox,
    Table::RunLeases,
    Table::Timers,
    Table::Timeline,
    Table::Jobs,
    Table::JobListing,
    Table::Queue,
    Table::Held,
    Table::HeldDue,
    Table::JobLeases,
    Table::JobExpiries,
    Table::PutOff,
    Table::PutOffDue,
    Table::Approvals,
    Table::OpenApprovals,
    Table::DeadLetters,
    Table::Workers,
    Table::Locks,
    Table::LockLine,
    Table::LockHistory,
    Table::LockTallies,
];

pub(super) fn subject(table: Table, key: &str) -> String {
    format!("{}/{key}", table.name())
}

pub(super) fn check(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, key)) = subject.split_once('/') else { return Ok(None) };
    let Some(table) = TABLES.iter().copied().find(|table| table.name() == name) else { return Ok(None) };
    let (from, until) = look.range(table);
    // Another tenant's rows are not checked here.
    if key < from.as_str() || key >= until.as_str() {
        return Ok(None);
    }
    let Some(value) = look.view.get(table, key)? else { return Ok(None) };
    Ok(reason(table, key, &value).map(|reason| Fault {
        detail: format!("the row cannot be read: {reason}"),
        remedy: Remedy::ByHand("nobody but a person can tell what the row was"),
    }))
}

/// Why the row cannot be read as what its table holds.
fn reason(table: Table, key: &str, value: &str) -> Option<String> {
    match table {
        Table::Tenants => unlike::<Tenant>(value),
        Table::WorkflowHeads => unlike::<WorkflowHead>(value),
        Table::WorkflowVersions => unlike::<WorkflowVersion>(value),
        Table::IdempotencyKeys => unlike::<KeyRecord>(value),
        Table::Starts => of_run(key).or_else(|| unlike::<Start>(value)),
        Table::Heads => of_run(key).or_else(|| unlike::<Head>(value)),
        Table::Steps => named::<StepKey>(key, "step").or_else(|| unlike::<StepRun>(value)),
        Table::Active | Table::Ready | Table::Timers => of_run(key),
        Table::Inbox => numbered(key).or_else(|| unlike::<InboxEvent>(value)),
        Table::RunLeases => of_run(key).or_else(|| unlike::<RunLease>(value)),
        Table::Timeline => numbered(key).or_else(|| unlike::<Event>(value)),
        Table::Jobs => of_job(key).or_else(|| unlike::<Job>(value)),
        Table::JobListing
        | Table::Queue
        | Table::JobExpiries
        | Table::PutOffDue
        | Table::HeldDue
        | Table::OpenApprovals => of_job(key),
        Table::JobLeases => of_job(key).or_else(|| unlike::<JobLease>(value)),
        Table::Held => of_job(key).or_else(|| unlike::<Hold>(value)),
        Table::PutOff => of_job(key).or_else(|| unlike::<Deferred>(value)),
        Table::Approvals => of_job(key).or_else(|| unlike::<Approval>(value)),
        Table::DeadLetters => of_job(key).or_else(|| unlike::<DeadLetter>(value)),
        Table::Workers => unlike::<WorkerRecord>(value),
        Table::Locks | Table::LockLine | Table::LockHistory | Table::LockTallies => {
            locks::unreadable(table, value)
        }
        // Counts that begin anew with the next period, lists that are rebuilt from what they name, and rows of no tenant.
        Table::Throttles
        | Table::System
        | Table::WorkflowListing
        | Table::DeletedRuns
        | Table::ApiKeys
        | Table::Registry
        | Table::LockListing
        | Table::LockSweeps
        | Table::Documents
        | Table::Figures => None,
    }
}

fn unlike<T: DeserializeOwned>(value: &str) -> Option<String> {
    serde_json::from_str::<T>(value).err().map(|error| error.to_string())
}

fn named<T: std::str::FromStr>(key: &str, what: &str) -> Option<String> {
    let part = rows::last_part(key);
    part.parse::<T>().err().map(|_| format!("{part:?} is no {what}"))
}

fn of_run(key: &str) -> Option<String> {
    named::<RunId>(key, "run")
}

fn of_job(key: &str) -> Option<String> {
    named::<JobId>(key, "job")
}

fn numbered(key: &str) -> Option<String> {
    named::<u64>(key, "number")
}
