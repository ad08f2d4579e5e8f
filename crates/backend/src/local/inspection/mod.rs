//! Checking invariants among the rows, and repairing violations.
//!
//! One function checks one subject and answers with what would repair it. An inspection drops that; a repair applies it in
//! the same step in which it checked.

mod approvals;
mod children;
pub(super) mod damage;
mod events;
mod fair;
mod jobs;
mod keys;
mod limits;
mod look;
mod pages;
mod runs;
mod steps;

use interlock_model::doctor::{Invariant, RepairOutcome};
use interlock_model::{JobId, RunId, Timestamp};

use super::store::Decide;
use super::tables::{Decided, Decision, Row, Table, View};
use super::{budgets, locks, rows};
use crate::verbs::Repair;
pub(super) use look::{Checked, Fault, Inspection, Known, Remedy, RunState};

/// How one subject of an invariant is checked.
enum Rule {
    /// The tenant as a whole.
    Tenant(fn(&Inspection<'_>) -> Checked),
    /// For each row of these tables, what the row is about.
    Run(&'static [Table], fn(&Inspection<'_>, RunId) -> Checked),
    Job(&'static [Table], fn(&Inspection<'_>, &JobId) -> Checked),
    Text(&'static [Table], fn(&Inspection<'_>, &str) -> Checked),
}

impl Rule {
    /// None: the tenant as a whole is checked.
    fn tables(&self) -> Option<&'static [Table]> {
        match self {
            Self::Tenant(_) => None,
            Self::Run(tables, _) | Self::Job(tables, _) | Self::Text(tables, _) => Some(tables),
        }
    }
}

/// The rule of an invariant of tenants. None: it is checked elsewhere.
fn rule(invariant: Invariant) -> Option<Rule> {
    use Invariant as I;
    Some(match invariant {
        I::SlotWithoutRun => Rule::Run(&[Table::Active], runs::slot_without_run),
        I::RunWithoutSlot => Rule::Run(&[Table::Heads], runs::without_slot),
        I::SlotCountDrift => Rule::Tenant(runs::slot_count_drift),
        I::LimitSlotWithoutRun => Rule::Run(&[Table::LimitSlots], limits::slot_without_run),
        I::RunWithoutLimitSlot => Rule::Run(&[Table::RunSlots], limits::run_without_slot),
        I::LimitCountDrift => Rule::Text(&[Table::LimitGroups], limits::count_drift),
        I::FairQueueDrift => Rule::Text(&[Table::LimitGroups], fair::drift),
        I::QueuedRunInNoQueue => Rule::Run(&[Table::Heads], limits::queued_in_no_queue),
        I::LimitQueueEntryWithoutRun => Rule::Run(&[Table::RunQueue], limits::entry_without_run),
        I::DebouncedRunWithoutTimer => Rule::Run(&[Table::RunSlots], limits::debounced_without_timer),
        I::DebounceEntryWithoutRun => Rule::Run(&[Table::Debounced], limits::debounce_entry_without_run),
        I::StartableRunWaits => Rule::Run(&[Table::RunQueue], limits::startable_waits),
        I::ChildWithoutStep => Rule::Run(&[Table::RunSlots], children::without_step),
        I::StepWithoutChild => Rule::Text(&[Table::Steps], children::missing),
        I::ChildStartNotDue => Rule::Run(&[Table::ChildStarts], children::start_not_due),
        I::EventWaiterNotIndexed => Rule::Text(&[Table::Steps], events::not_indexed),
        I::EventWaiterWithoutStep => Rule::Text(&[Table::EventWaiters], events::without_step),
        I::KeyWithoutRun => Rule::Text(&[Table::IdempotencyKeys], keys::without_run),
        I::ReservationLeftBehind => Rule::Text(&[Table::IdempotencyKeys], keys::left_behind),
        I::LeaseWithoutJob => Rule::Job(&[Table::JobLeases, Table::JobExpiries], jobs::lease_without_job),
        I::LeaseNotIndexed => Rule::Job(&[Table::JobLeases], jobs::lease_not_indexed),
        I::JobInNoIndex => Rule::Job(&[Table::Jobs], jobs::in_no_index),
        I::QueueEntryWithoutJob => Rule::Job(&[Table::Queue], jobs::queued_without_job),
        I::JobNotListed => Rule::Job(&[Table::Jobs], jobs::not_listed),
        I::JobOfEndedRun => Rule::Job(&[Table::Jobs], jobs::of_ended_run),
        I::StepWithoutJob => Rule::Job(&[Table::Steps], steps::without_job),
        I::TimerOverdue => Rule::Run(&[Table::Timers], runs::timer_overdue),
        I::TimerMissing => Rule::Run(&[Table::Heads], runs::timer_missing),
        I::TimerWithoutRun => Rule::Run(&[Table::Timers], runs::timer_without_run),
        I::InboxNotDrained => Rule::Run(&[Table::Inbox, Table::Heads], runs::inbox_not_drained),
        I::ReadyWithoutRun => Rule::Run(&[Table::Ready], runs::ready_without_run),
        I::RunHoldWithoutHolder => Rule::Run(&[Table::RunLeases], runs::lease_without_holder),
        I::RunQuarantined => Rule::Run(&[Table::RunLeases], runs::quarantined),
        I::ApprovalOfEndedRun => Rule::Job(&[Table::Approvals], approvals::of_ended_run),
        I::ApprovalNotListed => Rule::Job(&[Table::Approvals], approvals::not_listed),
        I::KeptResultNotDue => Rule::Job(&[Table::Deferred], jobs::result_not_due),
        I::LockDebt => Rule::Text(&[Table::Locks], locks::debt),
        I::LockTallyDrift => Rule::Tenant(locks::drift),
        I::LockNotListed => Rule::Text(&[Table::Locks], locks::not_listed),
        I::BudgetDrift => Rule::Text(&[Table::Budgets], budgets::drift),
        I::PermitNotDue => Rule::Text(&[Table::BudgetPermits], budgets::not_due),
        I::PermitWithoutJob => Rule::Text(&[Table::BudgetPermits], budgets::without_job),
        I::PermitWithoutBudget => Rule::Text(&[Table::BudgetPermits], budgets::without_budget),
        I::RowDamaged => Rule::Text(Table::ALL, damage::check),
        I::DeadLettersGrowing => Rule::Tenant(approvals::dead_letters_growing),
        I::StoreDataLost
        | I::SnapshotStale
        | I::LoopNotTicking
        | I::BusAway
        | I::StreamLag
        | I::ConsumerGone
        | I::ClockSkew
        | I::RenewalLag
        | I::MemoryPolicy
        | I::MemoryShort
        | I::PushUnconfirmed
        | I::CertificateExpired
        | I::WorkerSilent => return None,
    })
}

/// What a finding at this row would be about. None: there is nothing to check.
fn subject(look: &Inspection<'_>, invariant: Invariant, table: Table, row: &Row) -> Option<String> {
    match (invariant, table) {
        (
            Invariant::KeyWithoutRun
            | Invariant::ReservationLeftBehind
            | Invariant::LimitCountDrift
            | Invariant::FairQueueDrift
            | Invariant::PermitNotDue
            | Invariant::PermitWithoutJob
            | Invariant::EventWaiterWithoutStep,
            _,
        ) => rows::after_tenant(&row.key).map(str::to_owned),
        (Invariant::StepWithoutJob, _) => steps::awaited(row),
        (Invariant::StepWithoutChild, _) => children::awaited(row),
        (Invariant::EventWaiterNotIndexed, _) => events::awaiting(row),
        (Invariant::InboxNotDrained, Table::Inbox) | (Invariant::PermitWithoutBudget, _) => {
            row.key.split('/').nth(1).map(str::to_owned)
        }
        (Invariant::LockDebt | Invariant::LockNotListed, _) => locks::resource(look.tenant, &row.key),
        (Invariant::RowDamaged, _) => Some(damage::subject(table, &row.key)),
        (_, _) => Some(rows::last_part(&row.key).to_owned()),
    }
}

/// Whether the rule is broken in this subject.
fn check(look: &Inspection<'_>, rule: &Rule, subject: &str) -> Checked {
    match rule {
        Rule::Tenant(check) if subject == look.tenant.as_str() => check(look),
        Rule::Tenant(_) => Ok(None),
        Rule::Run(_, check) => subject.parse().map_or(Ok(None), |run| check(look, run)),
        Rule::Job(_, check) => subject.parse().map_or(Ok(None), |job| check(look, &job)),
        Rule::Text(_, check) => check(look, subject),
    }
}

impl Decide for Repair {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<RepairOutcome> {
        let Some(rule) = rule(self.invariant) else {
            return Ok(Decision::unchanged(RepairOutcome::NothingToDo));
        };
        let look = Inspection { view, now, tenant: &self.tenant, grace: self.grace, at: None };
        Ok(match check(&look, &rule, &self.subject)? {
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
