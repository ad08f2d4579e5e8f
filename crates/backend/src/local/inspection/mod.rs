//! Checking invariants among the rows, and repairing violations.
//!
//! One function checks one subject and answers with what would repair it. An inspection drops that; a repair applies it in
//! the same step in which it checked.

mod approvals;
mod damage;
mod dead_letters;
mod jobs;
mod keys;
mod leases;
mod look;
mod queues;
mod results;
mod slots;
mod steps;
mod timers;
mod turns;

use interlock_model::Timestamp;
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};

use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Pick, Row, Table, View};
use super::{locks, rows};
use crate::verbs::{Inspect, Repair};
use crate::{Page, StoreError};
pub(super) use look::{Checked, Fault, Inspection, Known, Remedy, RunState};

/// What is looked at for an invariant.
enum Scope {
    /// Each row of these tables.
    Rows(&'static [Table]),
    /// The tenant as a whole.
    Whole,
}

fn scope(invariant: Invariant) -> Scope {
    use Invariant as I;
    match invariant {
        I::SlotWithoutRun => Scope::Rows(&[Table::Active]),
        I::RunWithoutSlot | I::TimerMissing => Scope::Rows(&[Table::Heads]),
        I::SlotCountDrift | I::LockTallyDrift | I::DeadLettersGrowing => Scope::Whole,
        I::KeyWithoutRun | I::ReservationLeftBehind => Scope::Rows(&[Table::IdempotencyKeys]),
        I::LeaseWithoutJob => Scope::Rows(&[Table::JobLeases, Table::JobExpiries]),
        I::LeaseNotIndexed => Scope::Rows(&[Table::JobLeases]),
        I::JobInNoIndex | I::JobNotListed | I::JobOfEndedRun => Scope::Rows(&[Table::Jobs]),
        I::QueueEntryWithoutJob => Scope::Rows(&[Table::Queue]),
        I::StepWithoutJob => Scope::Rows(&[Table::Steps]),
        I::TimerOverdue | I::TimerWithoutRun => Scope::Rows(&[Table::Timers]),
        I::InboxNotDrained => Scope::Rows(&[Table::Inbox, Table::Heads]),
        I::ReadyWithoutRun => Scope::Rows(&[Table::Ready]),
        I::RunHoldWithoutHolder => Scope::Rows(&[Table::RunLeases]),
        I::ApprovalOfEndedRun | I::ApprovalNotListed => Scope::Rows(&[Table::Approvals]),
        I::KeptResultNotDue => Scope::Rows(&[Table::PutOff]),
        I::LockDebt | I::LockNotListed => Scope::Rows(&[Table::Locks]),
        I::RowDamaged => Scope::Rows(damage::TABLES),
        I::SnapshotStale
        | I::LoopNotTicking
        | I::BusAway
        | I::StreamLag
        | I::ConsumerGone
        | I::ClockSkew
        | I::RenewalLag
        | I::MemoryPolicy
        | I::MemoryShort
        | I::WorkerSilent => Scope::Rows(&[]),
    }
}

/// What a finding at this row would be about. None: there is nothing to check.
fn subject(look: &Inspection<'_>, invariant: Invariant, table: Table, row: &Row) -> Option<String> {
    let last = || Some(rows::last_part(&row.key).to_owned());
    match (invariant, table) {
        (Invariant::KeyWithoutRun | Invariant::ReservationLeftBehind, _) => {
            rows::after_tenant(&row.key).map(str::to_owned)
        }
        (Invariant::StepWithoutJob, _) => steps::awaited(row),
        (Invariant::InboxNotDrained, Table::Inbox) => row.key.split('/').nth(1).map(str::to_owned),
        (Invariant::LockDebt | Invariant::LockNotListed, _) => locks::resource(look.tenant, &row.key),
        (Invariant::RowDamaged, _) => Some(damage::subject(table, &row.key)),
        (_, _) => last(),
    }
}

/// Whether the invariant is violated in this subject.
fn check(look: &Inspection<'_>, invariant: Invariant, subject: &str) -> Checked {
    use Invariant as I;
    match invariant {
        I::SlotWithoutRun => look.of_run(subject, slots::without_run),
        I::RunWithoutSlot => look.of_run(subject, slots::missing),
        I::SlotCountDrift => look.of_tenant(subject, slots::drift),
        I::KeyWithoutRun => keys::without_run(look, subject),
        I::ReservationLeftBehind => keys::left_behind(look, subject),
        I::LeaseWithoutJob => look.of_job(subject, leases::without_job),
        I::LeaseNotIndexed => look.of_job(subject, leases::not_indexed),
        I::JobInNoIndex => look.of_job(subject, queues::in_none),
        I::QueueEntryWithoutJob => look.of_job(subject, queues::without_job),
        I::JobNotListed => look.of_job(subject, jobs::not_listed),
        I::JobOfEndedRun => look.of_job(subject, jobs::of_ended_run),
        I::StepWithoutJob => look.of_job(subject, steps::without_job),
        I::TimerOverdue => look.of_run(subject, timers::overdue),
        I::TimerMissing => look.of_run(subject, timers::missing),
        I::TimerWithoutRun => look.of_run(subject, timers::without_run),
        I::InboxNotDrained => look.of_run(subject, turns::not_drained),
        I::ReadyWithoutRun => look.of_run(subject, turns::ready_without_run),
        I::RunHoldWithoutHolder => look.of_run(subject, turns::without_holder),
        I::ApprovalOfEndedRun => look.of_job(subject, approvals::of_ended_run),
        I::ApprovalNotListed => look.of_job(subject, approvals::not_listed),
        I::KeptResultNotDue => look.of_job(subject, results::not_due),
        I::LockDebt => locks::debt(look, subject),
        I::LockTallyDrift => look.of_tenant(subject, locks::drift),
        I::LockNotListed => locks::not_listed(look, subject),
        I::RowDamaged => damage::check(look, subject),
        I::DeadLettersGrowing => look.of_tenant(subject, dead_letters::growing),
        I::SnapshotStale
        | I::LoopNotTicking
        | I::BusAway
        | I::StreamLag
        | I::ConsumerGone
        | I::ClockSkew
        | I::RenewalLag
        | I::MemoryPolicy
        | I::MemoryShort
        | I::WorkerSilent => Ok(None),
    }
}

impl Look for Inspect {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Page<Finding>, StoreError> {
        let look = Inspection { view, now, tenant: &self.tenant, grace: self.grace, at: None };
        match scope(self.invariant) {
            Scope::Whole => {
                let subject = self.tenant.to_string();
                let fault = check(&look, self.invariant, &subject)?;
                Ok(Page {
                    items: fault.map(|fault| finding(self, subject, fault)).into_iter().collect(),
                    next: None,
                })
            }
            Scope::Rows(tables) => inspect_rows(&look, self, tables),
        }
    }
}

fn inspect_rows(
    look: &Inspection<'_>,
    asked: &Inspect,
    tables: &[Table],
) -> Result<Page<Finding>, StoreError> {
    let mut items = Vec::new();
    let mut left = asked.page.limit.max(1);
    let after = asked.page.after.as_deref().and_then(|after| after.split_once(' '));
    let first = after.and_then(|(name, _)| tables.iter().position(|table| table.name() == name)).unwrap_or(0);
    for (position, table) in tables.iter().copied().enumerate().skip(first) {
        let (from, until) = look.range(table);
        // The first key after another is that one with the smallest character behind it.
        let from = after.filter(|_| position == first).map_or(from, |(_, key)| format!("{key}\0"));
        let found = look.view.scan(table, &from, &until, Pick::First(left))?;
        for row in &found {
            let look = Inspection { at: Some((table, row)), ..*look };
            let Some(subject) = subject(&look, asked.invariant, table, row) else { continue };
            if let Some(fault) = check(&look, asked.invariant, &subject)? {
                items.push(finding(asked, subject, fault));
            }
        }
        left -= found.len();
        if let Some(last) = found.last().filter(|_| left == 0) {
            return Ok(Page { items, next: Some(format!("{} {}", table.name(), last.key)) });
        }
    }
    Ok(Page { items, next: None })
}

fn finding(asked: &Inspect, subject: String, fault: Fault) -> Finding {
    Finding {
        invariant: asked.invariant,
        tenant: Some(asked.tenant.clone()),
        subject,
        detail: fault.detail,
        is_repairable: matches!(fault.remedy, Remedy::Write(_)),
    }
}

impl Decide for Repair {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<RepairOutcome> {
        if self.invariant.realm() != Realm::Tenant {
            return Ok(Decision::unchanged(RepairOutcome::NothingToDo));
        }
        let look = Inspection { view, now, tenant: &self.tenant, grace: self.grace, at: None };
        Ok(match check(&look, self.invariant, &self.subject)? {
            None => Decision::unchanged(RepairOutcome::NothingToDo),
            Some(Fault { remedy: Remedy::ByHand(reason), .. }) => {
                Decision::unchanged(RepairOutcome::Impossible { reason: reason.to_owned() })
            }
            Some(Fault { remedy: Remedy::Write(changes), .. }) => {
                Decision { answer: RepairOutcome::Repaired, changes }
            }
        })
    }
}
