//! Planted bugs, as an executor between the verbs and the tables that shows a verb false rows or changes what it
//! writes. The verbs themselves, which production runs, know nothing of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::local::{Decide, Decision, Executor, Pick, Row, Table, View};
use interlock_backend::verbs::{
    AcquireLock, Admit, Claim, Commit, ExpirePermits, RecordResult, ReserveBudget, SettlePermit,
};
use interlock_backend::{StoreError, Verb as _};
use interlock_model::Timestamp;
use interlock_model::job::{EndCause, Job, JobLease};
use interlock_model::tenant::Tenant;
use serde::Serialize;

use crate::checker::Write;
use crate::planted_budgets::{forget_unsettled, reopen_permits, spoil as spoil_budgets, without_expiry};
use crate::planted_children::{START, hide_groups_above};
use crate::planted_events::{SEND, hide_sent};
use crate::planted_jobs::time_from_dispatch;
use crate::planted_limits::{Misled, spoil};
use crate::tables::{WatchedTables, changes};
use crate::{Bug, planted_children, planted_events};

/// The gap between the two steps of what should have been one.
const GAP: Duration = Duration::from_millis(3);

const ADMIT: &str = Admit::ACTION;
const CLAIM: &str = Claim::ACTION;
const COMMIT: &str = Commit::ACTION;
/// Also of a result that brings its run.
const REPORT: &str = RecordResult::ACTION;
const ACQUIRE: &str = AcquireLock::ACTION;

const RESERVE: &str = ReserveBudget::ACTION;
const SETTLE: &str = SettlePermit::ACTION;
const EXPIRE: &str = ExpirePermits::ACTION;

pub(crate) type Found = Result<Option<String>, StoreError>;

pub(crate) struct PlantedTables {
    tables: WatchedTables,
    bug: Option<Bug>,
    /// Every lease that was ever given, for the bugs that forget that leases end.
    leases: Arc<Mutex<BTreeMap<String, String>>>,
}

/// The tables with some rows replaced.
struct Lying<'a> {
    view: &'a dyn View,
    lie: &'a dyn Fn(&dyn View, Table, &str) -> Found,
}

impl View for Lying<'_> {
    fn get(&self, table: Table, key: &str) -> Found {
        (self.lie)(self.view, table, key)
    }

    /// A row that `get` hides is in no range either.
    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        for row in self.view.scan(table, from, until, pick)? {
            if self.get(table, &row.key)?.is_some() {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

impl PlantedTables {
    pub(crate) fn new(tables: WatchedTables, bug: Option<Bug>) -> Self {
        Self { tables, bug, leases: Arc::default() }
    }

    pub(crate) fn watched(&self) -> &WatchedTables {
        &self.tables
    }

    /// The cap is looked at before the gap, and the run is written after it.
    async fn admit_late<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let all = |view: &dyn View, _| view.scan(Table::Tenants, "", "~", Pick::First(usize::MAX));
        let rows = self.tables.read("look at the cap", all).await?;
        let seen: BTreeMap<String, String> = rows.into_iter().map(|row| (row.key, row.value)).collect();
        tokio::time::sleep(GAP).await;
        let decide = move |view: &dyn View, now| {
            let lie = |view: &dyn View, table, key: &str| {
                if table == Table::Tenants { Ok(seen.get(key).cloned()) } else { view.get(table, key) }
            };
            let decided = decide(&Lying { view, lie: &lie }, now)?;
            // The counter itself is raised by an atomic increment, as such code would do.
            alter(decided, |write| {
                if let (Table::Tenants, key, Some(value)) = write {
                    *value =
                        edit(view.get(Table::Tenants, key)?, |tenant: &mut Tenant| tenant.runs_active += 1);
                }
                Ok(())
            })
        };
        self.tables.write(ADMIT, decide).await
    }

    /// The ledger is read before the gap, and the permit is written after it.
    async fn reserve_late<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let all = |view: &dyn View, _| view.scan(Table::BudgetLedgers, "", "~", Pick::First(usize::MAX));
        let rows = self.tables.read("look at the ledger", all).await?;
        let seen: BTreeMap<String, String> = rows.into_iter().map(|row| (row.key, row.value)).collect();
        tokio::time::sleep(GAP).await;
        let decide = move |view: &dyn View, now| {
            let lie = |view: &dyn View, table, key: &str| {
                if table == Table::BudgetLedgers { Ok(seen.get(key).cloned()) } else { view.get(table, key) }
            };
            decide(&Lying { view, lie: &lie }, now)
        };
        self.tables.write(RESERVE, decide).await
    }

    /// The key is written before the gap, and the run after it.
    async fn reserve_first<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let reserve = move |view: &dyn View, now| {
            let Decision { answer, changes: all } = decide(view, now)?;
            let (keys, rest): (Vec<Write>, Vec<Write>) =
                all.into_writes().into_iter().partition(|(table, ..)| *table == Table::IdempotencyKeys);
            Ok(Decision { answer: (answer, rest), changes: changes(keys) })
        };
        let (answer, rest) = self.tables.write("reserve a key", reserve).await?;
        tokio::time::sleep(GAP).await;
        self.tables.write(ADMIT, move |_, _| Ok(Decision { answer, changes: changes(rest) })).await
    }

    /// Shows every job as still held under the fence that its worker was once given.
    async fn report_unfenced<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let leases = self.leases.clone();
        let decide = move |view: &dyn View, now| {
            let leases = leases.lock().unwrap_or_else(PoisonError::into_inner);
            let lie = |view: &dyn View, table, key: &str| {
                let found = view.get(table, key)?;
                Ok(if table == Table::JobLeases {
                    // A hold that is in order is shown as it is; one that has ended, as if it never would.
                    found.filter(|row| is_live(row, now)).or(leases.get(key).cloned())
                } else if table == Table::Jobs {
                    found.map(|job| edit(Some(job), forget_loss))
                } else {
                    found
                })
            };
            decide(&Lying { view, lie: &lie }, now)
        };
        self.tables.write(REPORT, decide).await
    }

    /// Shows every admission lock as still held by the last who had it.
    async fn admit_unheld<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let holds = self.leases.clone();
        let decide = move |view: &dyn View, now| {
            let holds = holds.lock().unwrap_or_else(PoisonError::into_inner);
            let lie = |view: &dyn View, table, key: &str| {
                if table == Table::Locks && holds.contains_key(key) {
                    Ok(holds.get(key).cloned())
                } else {
                    view.get(table, key)
                }
            };
            decide(&Lying { view, lie: &lie }, now)
        };
        self.tables.write(ADMIT, decide).await
    }

    fn remember_holds<R>(
        holds: &Mutex<BTreeMap<String, String>>,
        decided: Decision<R>,
    ) -> Result<Decision<R>, StoreError> {
        alter(decided, |write| {
            if let (Table::Locks, key, Some(value)) = write
                && key.starts_with(":admission:")
            {
                let never = |record: &mut serde_json::Value| {
                    record["holders"][0]["expires_at"] = serde_json::json!(u64::MAX);
                };
                let endless = edit(Some(value.clone()), never);
                holds.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), endless);
            }
            Ok(())
        })
    }

    fn remember_leases<R>(
        leases: &Mutex<BTreeMap<String, String>>,
        decided: Decision<R>,
    ) -> Result<Decision<R>, StoreError> {
        alter(decided, |write| {
            if let (Table::JobLeases, key, Some(value)) = write {
                let never = |lease: &mut JobLease| lease.expires_at = Timestamp::from_millis(u64::MAX);
                let endless = edit(Some(value.clone()), never);
                leases.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), endless);
            }
            Ok(())
        })
    }

    /// Decides as if the rows were what the lie says.
    async fn lie<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
        lie: &'static (dyn Fn(&dyn View, Table, &str) -> Found + Sync),
    ) -> Result<R, StoreError> {
        self.tables.write(action, move |view, now| decide(&Lying { view, lie }, now)).await
    }
}

impl Executor for PlantedTables {
    async fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        match (self.bug, action) {
            (Some(Bug::CapBeforeWrite), ADMIT) => self.admit_late(decide).await,
            (Some(Bug::KeyBeforeRun), ADMIT) => self.reserve_first(decide).await,
            (Some(Bug::FenceNotCompared), CLAIM) => {
                let leases = self.leases.clone();
                let decide = move |view: &dyn View, now| Self::remember_leases(&leases, decide(view, now)?);
                self.tables.write(action, decide).await
            }
            (Some(Bug::TimeoutFromDispatch), CLAIM) => self.lie(action, decide, &time_from_dispatch).await,
            (Some(Bug::FenceNotCompared), REPORT) => self.report_unfenced(decide).await,
            (Some(Bug::SlotFreedTwice), COMMIT) => {
                self.tables.write(action, move |view, now| free_twice(decide(view, now)?)).await
            }
            (Some(Bug::ReplayAfterCap), ADMIT) => self.lie(action, decide, &hide_keys_when_full).await,
            (Some(Bug::LockGrantedTwice), ACQUIRE) => self.lie(action, decide, &hide_holders).await,
            (Some(Bug::LineOvertaken), ACQUIRE) => self.lie(action, decide, &hide_line).await,
            (Some(Bug::HoldOutlivesItsLease), ACQUIRE) => {
                let leases = self.leases.clone();
                let decide = move |view: &dyn View, now| Self::remember_holds(&leases, decide(view, now)?);
                self.tables.write(action, decide).await
            }
            (Some(Bug::HoldOutlivesItsLease), ADMIT) => self.admit_unheld(decide).await,
            (Some(Bug::BusyRunTaken), REPORT) => self.lie(action, decide, &hide_run_leases).await,
            (Some(Bug::LedgerBeforePermit), RESERVE) => self.reserve_late(decide).await,
            (Some(Bug::PermitSettledTwice), SETTLE) => self.lie(action, decide, &reopen_permits).await,
            (Some(Bug::PermitNeverDue), RESERVE) => {
                self.tables.write(action, move |view, now| Ok(without_expiry(decide(view, now)?))).await
            }
            (Some(Bug::ExpiredPermitForgotten), EXPIRE) => {
                self.tables.write(action, move |view, now| forget_unsettled(decide(view, now)?)).await
            }
            (Some(Bug::EventIdForgotten), SEND) => self.lie(action, decide, &hide_sent).await,
            (Some(Bug::GroupAboveCounted), START) => self.lie(action, decide, &hide_groups_above).await,
            (Some(bug), _) => {
                let decide = move |view: &dyn View, now| {
                    let decided = match Misled::by(bug, action, view) {
                        Some(misled) => decide(&misled, now)?,
                        None => decide(view, now)?,
                    };
                    let spoiled = spoil_budgets(bug, action, spoil(bug, action, decided));
                    planted_events::spoil(bug, action, planted_children::spoil(bug, action, spoiled?))
                };
                self.tables.write(action, decide).await
            }
            (None, _) => self.tables.write(action, decide).await,
        }
    }

    async fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.tables.read(action, look).await
    }

    fn peek<V: Decide>(&self, verb: &V) -> Option<V::Answer> {
        self.tables.peek(verb)
    }
}

fn free_twice<R>(decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    let Decision { answer, changes: all } = decided;
    let writes = all.into_writes();
    let frees = writes.iter().any(|(table, _, value)| *table == Table::Active && value.is_none());
    alter(Decision { answer, changes: changes(writes) }, |write| {
        if let (Table::Tenants, _, Some(value)) = write
            && frees
        {
            let free = |tenant: &mut Tenant| tenant.runs_active = tenant.runs_active.saturating_sub(1);
            *value = edit(Some(value.clone()), free);
        }
        Ok(())
    })
}

/// A tenant at its cap has no keys, as if they were looked up only after the cap had let the start through.
fn hide_keys_when_full(view: &dyn View, table: Table, key: &str) -> Found {
    let found = view.get(table, key)?;
    if table != Table::IdempotencyKeys || found.is_none() {
        return Ok(found);
    }
    let tenant = view.get(Table::Tenants, key.split('/').next().unwrap_or(key))?;
    let tenant: Tenant = tenant.and_then(|row| serde_json::from_str(&row).ok()).unwrap_or_default();
    let is_full = tenant.limits.runs_max.is_some_and(|max| tenant.runs_active >= max);
    Ok(found.filter(|_| !is_full))
}

/// Every lock looks free.
fn hide_holders(view: &dyn View, table: Table, key: &str) -> Found {
    let found = view.get(table, key)?;
    if table != Table::Locks {
        return Ok(found);
    }
    let forget = |record: &mut serde_json::Value| record["holders"] = serde_json::json!([]);
    Ok(found.map(|row| edit(Some(row), forget)))
}

/// No run has a lease.
fn hide_run_leases(view: &dyn View, table: Table, key: &str) -> Found {
    if table == Table::RunLeases { Ok(None) } else { view.get(table, key) }
}

/// No lock has a queue.
fn hide_line(view: &dyn View, table: Table, key: &str) -> Found {
    if table == Table::LockQueue { Ok(None) } else { view.get(table, key) }
}

/// A job that was lost or revoked is open again; one that was reported is not.
fn forget_loss(job: &mut Job) {
    let is_over = |cause| matches!(cause, EndCause::Lost | EndCause::TimedOut | EndCause::Revoked);
    job.end = job.end.take().filter(|end| !is_over(end.cause));
}

fn is_live(lease: &str, now: Timestamp) -> bool {
    serde_json::from_str::<JobLease>(lease).is_ok_and(|lease| now < lease.expires_at)
}

/// The decision with each of its writes passed through `change`.
pub(crate) fn alter<R>(
    decided: Decision<R>,
    mut change: impl FnMut((Table, &String, Option<&mut String>)) -> Result<(), StoreError>,
) -> Result<Decision<R>, StoreError> {
    let mut writes = decided.changes.into_writes();
    for (table, key, value) in &mut writes {
        change((*table, key, value.as_mut()))?;
    }
    Ok(Decision { answer: decided.answer, changes: changes(writes) })
}

/// A row with something in it changed.
pub(crate) fn edit<T: Serialize + serde::de::DeserializeOwned>(
    row: Option<String>,
    change: impl FnOnce(&mut T),
) -> String {
    let row = row.unwrap_or_else(|| "{}".to_owned());
    match serde_json::from_str::<T>(&row) {
        Ok(mut read) => {
            change(&mut read);
            serde_json::to_string(&read).expect("what was JSON is JSON again")
        }
        Err(_) => row,
    }
}
