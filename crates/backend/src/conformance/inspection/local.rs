//! Spoiling the rows of a store whose verbs are decisions over tables.
//!
//! Keys are found, or made after the pattern of others: only the store knows how they are put together.

mod limits;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::doctor::Invariant;
use interlock_model::{Clock, JobId, RunId};
use serde_json::{Value, json};

use self::limits::{of_children, of_limits};
use super::super::OnManualClock;
use super::super::scene::holder;
use super::{Fixture, Plant, Planted};
use crate::Backend;
use crate::inspection::DEAD_LETTERS_REPORTED_FROM;
use crate::local::{Changes, Decision, Executor, LocalStore, Pick, Row, Table, View};

const AN_HOUR: Duration = Duration::from_hours(1);

/// A store whose rows a test reads and writes.
#[async_trait]
pub trait LocalRows: Backend {
    async fn raw_rows(&self, table: Table) -> Vec<Row>;
    async fn overwrite(&self, table: Table, rows: Vec<(String, Option<String>)>);
}

#[async_trait]
impl<E: Executor> LocalRows for LocalStore<E> {
    async fn raw_rows(&self, table: Table) -> Vec<Row> {
        let look = move |view: &dyn View, _| view.scan(table, "", "~", Pick::First(usize::MAX));
        self.tables().read("read rows", look).await.expect("the store is up")
    }

    async fn overwrite(&self, table: Table, rows: Vec<(String, Option<String>)>) {
        let write = move |_: &dyn View, _| {
            let mut changes = Changes::default();
            for (key, value) in rows {
                changes.overwrite(table, key, value);
            }
            Ok(Decision { answer: (), changes })
        };
        self.tables().write("overwrite rows", write).await.expect("the store is up");
    }
}

/// Whether the key has this part.
fn is_of(row: &Row, part: &str) -> bool {
    row.key.split('/').any(|known| known == part) || row.key.ends_with(&format!("/{part}"))
}

struct Soil(Arc<dyn LocalRows>);

impl Soil {
    /// The only row of the table that is about this.
    async fn row(&self, table: Table, part: &str) -> Row {
        let mut rows = self.0.raw_rows(table).await;
        rows.retain(|row| is_of(row, part));
        assert_eq!(rows.len(), 1, "{table:?} has one row of {part}");
        rows.remove(0)
    }

    async fn put(&self, table: Table, key: &str, value: String) {
        self.0.overwrite(table, vec![(key.to_owned(), Some(value))]).await;
    }

    async fn remove(&self, table: Table, part: &str) {
        let row = self.row(table, part).await;
        self.0.overwrite(table, vec![(row.key, None)]).await;
    }

    /// A row like that of `pattern`, about something else.
    async fn copy(&self, table: Table, pattern: (&str, &str), more: &[(&str, &str)]) {
        let row = self.row(table, pattern.0).await;
        let mut key = row.key.replace(pattern.0, pattern.1);
        for (from, to) in more {
            key = key.replace(from, to);
        }
        self.put(table, &key, row.value).await;
    }

    async fn edit(&self, table: Table, part: &str, edit: impl FnOnce(&mut Value)) {
        let row = self.row(table, part).await;
        let mut value = serde_json::from_str(&row.value).expect("rows are JSON");
        edit(&mut value);
        self.put(table, &row.key, value.to_string()).await;
    }

    async fn count_slots(&self, by: i64) {
        self.edit(Table::Tenants, "acme", |tenant| {
            let active = tenant["runs_active"].as_i64().expect("it is a number");
            tenant["runs_active"] = json!(active + by);
        })
        .await;
    }
}

impl Soil {
    async fn count_group(&self, field: &str, by: i64) {
        self.edit(Table::LimitGroups, "api", |group| {
            let counted = group[field].as_i64().expect("it is a number");
            group[field] = json!(counted + by);
        })
        .await;
    }
}

#[async_trait]
impl<F: Fn(Arc<dyn Clock>) -> Arc<dyn LocalRows> + Send + Sync> Plant for OnManualClock<F> {
    async fn plant(&mut self, fault: Invariant, fixture: &Fixture) -> Planted {
        let soil = Soil(self.local_rows());
        let subject = match fault {
            Invariant::SlotWithoutRun
            | Invariant::RunWithoutSlot
            | Invariant::SlotCountDrift
            | Invariant::KeyWithoutRun
            | Invariant::ReservationLeftBehind => of_starts(&soil, fault, fixture).await,
            Invariant::LimitSlotWithoutRun
            | Invariant::RunWithoutLimitSlot
            | Invariant::LimitCountDrift
            | Invariant::FairQueueDrift
            | Invariant::QueuedRunInNoQueue
            | Invariant::LimitQueueEntryWithoutRun
            | Invariant::DebouncedRunWithoutTimer
            | Invariant::DebounceEntryWithoutRun
            | Invariant::StartableRunWaits => of_limits(&soil, fault, fixture).await,
            Invariant::LeaseWithoutJob
            | Invariant::LeaseNotIndexed
            | Invariant::JobInNoIndex
            | Invariant::QueueEntryWithoutJob
            | Invariant::JobNotListed
            | Invariant::JobOfEndedRun
            | Invariant::StepWithoutJob
            | Invariant::KeptResultNotDue => of_jobs(&soil, fault, fixture).await,
            Invariant::TimerOverdue
            | Invariant::TimerMissing
            | Invariant::TimerWithoutRun
            | Invariant::InboxNotDrained
            | Invariant::ReadyWithoutRun
            | Invariant::RunHoldWithoutHolder
            | Invariant::RunQuarantined => of_turns(&soil, fault, fixture).await,
            Invariant::ChildWithoutStep | Invariant::StepWithoutChild | Invariant::ChildStartNotDue => {
                of_children(&soil, fault, fixture).await
            }
            Invariant::EventWaiterNotIndexed | Invariant::EventWaiterWithoutStep => {
                of_events(&soil, fault, fixture).await
            }
            Invariant::BudgetDrift
            | Invariant::PermitNotDue
            | Invariant::PermitWithoutJob
            | Invariant::PermitWithoutBudget => of_budgets(&soil, fault, fixture).await,
            other => of_others(&soil, other, fixture).await,
        };
        Planted::In(subject)
    }
}

async fn of_starts(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let (delayed, missing) = (fixture.delayed.to_string(), fixture.missing.to_string());
    match fault {
        Invariant::SlotWithoutRun => {
            soil.copy(Table::Active, (&delayed, &missing), &[]).await;
            soil.count_slots(1).await;
            missing
        }
        Invariant::RunWithoutSlot => {
            soil.remove(Table::Active, &delayed).await;
            soil.count_slots(-1).await;
            delayed
        }
        Invariant::SlotCountDrift => {
            soil.count_slots(3).await;
            fixture.tenant.to_string()
        }
        Invariant::KeyWithoutRun => {
            soil.edit(Table::IdempotencyKeys, fixture.key.as_str(), |key| key["run"] = json!(missing)).await;
            format!("{}/{}", fixture.workflow, fixture.key)
        }
        Invariant::ReservationLeftBehind => {
            let until = fixture.now - AN_HOUR;
            let edit = |key: &mut Value| key["reservation"]["until"] = json!(until);
            soil.edit(Table::IdempotencyKeys, fixture.reserved.as_str(), edit).await;
            format!("{}/{}", fixture.workflow, fixture.reserved)
        }
        other => panic!("{other} is not about starts"),
    }
}

async fn of_jobs(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let text = |job: &JobId| job.to_string();
    let (queued, leased, ended) = (text(&fixture.queued), text(&fixture.leased), text(&fixture.ended));
    let to_its_queue = [("/queued/", "/ended/")];
    match fault {
        Invariant::LeaseWithoutJob => {
            soil.copy(Table::JobLeases, (&leased, &ended), &[]).await;
            soil.copy(Table::JobExpiries, (&leased, &ended), &[]).await;
            ended
        }
        Invariant::LeaseNotIndexed => {
            soil.remove(Table::JobExpiries, &leased).await;
            leased
        }
        Invariant::JobInNoIndex => {
            soil.remove(Table::Queue, &queued).await;
            queued
        }
        Invariant::QueueEntryWithoutJob => {
            soil.copy(Table::Queue, (&queued, &ended), &to_its_queue).await;
            ended
        }
        Invariant::JobNotListed => {
            soil.remove(Table::JobListing, &queued).await;
            queued
        }
        Invariant::JobOfEndedRun => {
            soil.edit(Table::Jobs, &ended, |job| job["end"] = Value::Null).await;
            soil.copy(Table::Queue, (&queued, &ended), &to_its_queue).await;
            ended
        }
        Invariant::StepWithoutJob => {
            for table in [Table::Jobs, Table::Queue, Table::JobListing] {
                soil.remove(table, &queued).await;
            }
            queued
        }
        Invariant::KeptResultNotDue => {
            soil.remove(Table::DeferredDue, &text(&fixture.kept)).await;
            text(&fixture.kept)
        }
        other => panic!("{other} is not about jobs"),
    }
}

async fn of_turns(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let text = |run: RunId| run.to_string();
    let (delayed, missing, posted) = (text(fixture.delayed), text(fixture.missing), text(fixture.posted));
    match fault {
        Invariant::TimerOverdue => {
            let row = soil.row(Table::Timers, &delayed).await;
            let due_at = fixture.now - AN_HOUR;
            let place = format!("/{:015}/", due_at.as_millis());
            let time = row.key.split('/').nth(1).expect("it has a time").to_owned();
            soil.put(Table::Timers, &row.key.replace(&format!("/{time}/"), &place), row.value).await;
            soil.0.overwrite(Table::Timers, vec![(row.key, None)]).await;
            soil.edit(Table::Heads, &delayed, |head| head["due_at"] = json!(due_at)).await;
            delayed
        }
        Invariant::TimerMissing => {
            soil.remove(Table::Timers, &delayed).await;
            delayed
        }
        Invariant::TimerWithoutRun => {
            soil.copy(Table::Timers, (&delayed, &missing), &[]).await;
            missing
        }
        Invariant::InboxNotDrained => {
            soil.remove(Table::Ready, &posted).await;
            posted
        }
        Invariant::ReadyWithoutRun => {
            soil.copy(Table::Ready, (&posted, &missing), &[]).await;
            missing
        }
        Invariant::RunHoldWithoutHolder => {
            let ended_at = fixture.now - AN_HOUR;
            let held = text(fixture.held);
            soil.edit(Table::RunLeases, &held, |lease| lease["expires_at"] = json!(ended_at)).await;
            held
        }
        Invariant::RunQuarantined => {
            let (key, since) = (format!("{}/{posted}", fixture.tenant), fixture.now);
            let row = json!({"holder": holder(), "fence": 0, "expires_at": since, "tries": 5, "quarantined_at": since});
            soil.put(Table::RunLeases, &key, row.to_string()).await;
            soil.remove(Table::Ready, &posted).await;
            posted
        }
        other => panic!("{other} is not about turns"),
    }
}

async fn of_events(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    if fault == Invariant::EventWaiterWithoutStep {
        let entry = Fixture::entry(fixture.missing);
        soil.put(Table::EventWaiters, &format!("{}/{entry}", fixture.tenant), String::new()).await;
        return entry;
    }
    soil.remove(Table::EventWaiters, &fixture.awaiting.to_string()).await;
    format!("{}/wait", fixture.awaiting)
}

async fn of_budgets(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let (budget, permit) = (fixture.budget.to_string(), fixture.permit.id.to_string());
    match fault {
        Invariant::BudgetDrift => {
            let group = fixture.permit.group.as_str();
            soil.edit(Table::BudgetLedgers, group, |ledger| ledger["reserved"] = json!(9)).await;
            budget
        }
        Invariant::PermitNotDue => {
            soil.remove(Table::BudgetDue, &format!("p.{permit}")).await;
            format!("{budget}/{permit}")
        }
        Invariant::PermitWithoutJob => {
            let job = fixture.ended.to_string();
            soil.remove(Table::BudgetDue, &format!("p.{permit}")).await;
            let of_job = |row: &mut Value| (row["expires_at"], row["job"]) = (Value::Null, json!(job));
            soil.edit(Table::BudgetPermits, &permit, of_job).await;
            format!("{budget}/{permit}")
        }
        _ => {
            soil.remove(Table::Budgets, &budget).await;
            budget
        }
    }
}

async fn of_others(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let (asking, orphan) = (fixture.asking.to_string(), fixture.orphan.to_string());
    let resource = fixture.lock.resource().to_string();
    let row = resource.replace('%', "%25").replace('/', "%2F");
    match fault {
        Invariant::ApprovalOfEndedRun => {
            soil.copy(Table::Approvals, (&asking, &orphan), &[]).await;
            soil.edit(Table::Approvals, &orphan, |approval| approval["job"] = json!(orphan)).await;
            soil.copy(Table::OpenApprovals, (&asking, &orphan), &[]).await;
            orphan
        }
        Invariant::ApprovalNotListed => {
            soil.remove(Table::OpenApprovals, &asking).await;
            asking
        }
        Invariant::LockDebt => {
            let ended_at = fixture.now - AN_HOUR;
            soil.edit(Table::Locks, &row, |lock| lock["holders"][0]["expires_at"] = json!(ended_at)).await;
            resource
        }
        Invariant::LockTallyDrift => {
            soil.edit(Table::LockTallies, "acme", |tally| tally["held"] = json!(40)).await;
            fixture.tenant.to_string()
        }
        Invariant::LockNotListed => {
            soil.remove(Table::LockListing, &row).await;
            resource
        }
        Invariant::RowDamaged => {
            let row = soil.row(Table::Steps, &fixture.leased.run.to_string()).await;
            soil.put(Table::Steps, &row.key, "{\"status\": 7".to_owned()).await;
            format!("{}/{}", Table::Steps.name(), row.key)
        }
        Invariant::DeadLettersGrowing => {
            let count = u32::try_from(DEAD_LETTERS_REPORTED_FROM).expect("it is small");
            let letters = (0..count).map(|number| fixture.letter(number));
            let rows = letters.map(|letter| {
                let value = serde_json::to_string(&letter).expect("letters are plain data");
                (format!("{}/{}", fixture.tenant, letter.job), Some(value))
            });
            soil.0.overwrite(Table::DeadLetters, rows.collect()).await;
            fixture.tenant.to_string()
        }
        other => panic!("{other} is about the installation"),
    }
}
