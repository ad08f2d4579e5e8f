//! Planted bugs of limits and queues: false rows that a verb is shown, and writes that it loses.

use interlock_backend::limits::StoredLimit;
use interlock_backend::local::{Decision, Pick, Row, Table, View};
use interlock_backend::verbs::{Admit, AdoptSystemLimits, Commit, FireTimers, SaveLimit};
use interlock_backend::{StoreError, Verb as _};
use interlock_model::admission::KeyRecord;
use interlock_model::limit::group::Group;
use interlock_model::limit::place::RunSlots;
use serde_json::{Map, Value};

use crate::Bug;
use crate::checker::Write;
use crate::planted::{Found, edit};
use crate::tables::changes;

const ADMIT: &str = Admit::ACTION;
const FIRE: &str = FireTimers::ACTION;
const COMMIT: &str = Commit::ACTION;
const SAVE_LIMIT: &str = SaveLimit::ACTION;
const ADOPT: &str = AdoptSystemLimits::ACTION;

/// A view of the tables with a bug of limits.
pub(crate) struct Misled<'a> {
    view: &'a dyn View,
    bug: Bug,
}

impl<'a> Misled<'a> {
    /// None: the bug is not one of this verb's.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are planted elsewhere")]
    pub(crate) fn by(bug: Bug, action: &str, view: &'a dyn View) -> Option<Self> {
        let is_of_verb = match bug {
            Bug::ReleaseForgetsToGrant | Bug::PausedLimitGrants | Bug::ChargeNotCorrected => action == COMMIT,
            Bug::RaisedLimitForgetsItsQueue => action == SAVE_LIMIT,
            Bug::SystemLimitForgetsItsQueues => action == ADOPT,
            Bug::LimitIgnored
            | Bug::PausedLimitStarts
            | Bug::RateForgotten
            | Bug::ReplayExtendsQuiet
            | Bug::IdleGroupKeepsItsCredit
            | Bug::DelayWithoutEnd => action == ADMIT,
            Bug::QuietEndSkipsLimits => action == FIRE,
            Bug::LastComesFirst | Bug::HeaviestGroupFirst => true,
            _ => false,
        };
        is_of_verb.then_some(Self { view, bug })
    }
}

impl View for Misled<'_> {
    fn get(&self, table: Table, key: &str) -> Found {
        let found = self.view.get(table, key)?;
        Ok(match (self.bug, table) {
            (Bug::ReplayExtendsQuiet, Table::IdempotencyKeys) => {
                found.filter(|record| !names_debounced(self.view, key, record))
            }
            (Bug::DelayWithoutEnd, Table::Limits) => found.map(|row| {
                edit(Some(row), |limit: &mut StoredLimit| {
                    let endless = limit.document.max_delay_sec.map(|_| 604_800);
                    limit.document.max_delay_sec = endless;
                })
            }),
            (Bug::LimitIgnored | Bug::QuietEndSkipsLimits, Table::Limits) => found
                .map(|row| edit(Some(row), |limit: &mut StoredLimit| limit.document.max_runs = Some(1_000))),
            (Bug::PausedLimitStarts | Bug::PausedLimitGrants, Table::Limits) => {
                found.map(|row| edit(Some(row), |limit: &mut StoredLimit| limit.paused = None))
            }
            (Bug::RateForgotten, Table::LimitGroups) => {
                found.map(|row| edit(Some(row), |group: &mut Group| group.paced_until = None))
            }
            (Bug::IdleGroupKeepsItsCredit, Table::LimitGroups) => {
                found.map(|row| edit(Some(row), |group: &mut Group| group.fair.virtual_time = 0))
            }
            (Bug::ChargeNotCorrected, Table::LimitSlots) => found
                .map(|row| edit(Some(row), |holder: &mut Map<String, Value>| drop(holder.remove("charge")))),
            (_, _) => found,
        })
    }

    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError> {
        match (self.bug, table, pick) {
            (
                Bug::ReleaseForgetsToGrant
                | Bug::RaisedLimitForgetsItsQueue
                | Bug::SystemLimitForgetsItsQueues,
                Table::RunQueue,
                _,
            )
            | (Bug::IdleGroupKeepsItsCredit, Table::FairTurns, _) => Ok(Vec::new()),
            // `tenant/limit/group/` begins the keys of one queue: to walk over all queues of a limit goes on as it does.
            (Bug::LastComesFirst, Table::RunQueue, Pick::First(count)) if from.matches('/').count() > 2 => {
                self.view.scan(table, from, until, Pick::Last(count))
            }
            // What is found stands in the order of its keys again: it must be the only one.
            (Bug::HeaviestGroupFirst, Table::FairTurns, Pick::First(_)) => {
                self.view.scan(table, from, until, Pick::Last(1))
            }
            (_, _, _) => self.view.scan(table, from, until, pick),
        }
    }
}

/// The decision as the bug writes it.
pub(crate) fn spoil<R>(bug: Bug, action: &str, decided: Decision<R>) -> Decision<R> {
    let Decision { answer, changes: all } = decided;
    let mut writes = all.into_writes();
    match (bug, action) {
        (Bug::SlotCountedTwice, ADMIT) => {
            let gives = writes.iter().any(|(table, ..)| *table == Table::LimitSlots);
            for (table, _, value) in &mut writes {
                if let (Table::LimitGroups, Some(row), true) = (*table, value, gives) {
                    *row = edit(Some(row.clone()), |group: &mut Group| group.live += 1);
                }
            }
        }
        (Bug::OldestInputWins, ADMIT) => {
            let takes_in = writes.iter().any(|(table, _, value)| is_taken_in(*table, value.as_deref()));
            writes.retain(|(table, ..)| *table != Table::Starts || !takes_in);
        }
        (Bug::OneSlotForgotten, ADMIT) => {
            lose_first(&mut writes, |(table, _, value)| *table == Table::LimitSlots && value.is_some());
        }
        (Bug::LimitSlotLeaked, COMMIT) => {
            lose_first(&mut writes, |(table, _, value)| *table == Table::LimitSlots && value.is_none());
        }
        (Bug::QueueEntryLeftBehind, COMMIT) => {
            lose_first(&mut writes, |(table, _, value)| *table == Table::RunQueue && value.is_none());
        }
        (Bug::SystemLimitNotCopied, ADOPT) => writes.retain(|(table, ..)| *table != Table::Limits),
        (Bug::LimitTimerForgotten, _) => {
            writes.retain(|(table, _, value)| *table != Table::LimitTimers || value.is_none());
        }
        (_, _) => {}
    }
    Decision { answer, changes: changes(writes) }
}

/// Whether the key stands for a run that waits for newer starts.
fn names_debounced(view: &dyn View, key: &str, record: &str) -> bool {
    let Ok(KeyRecord { run, .. }) = serde_json::from_str(record) else { return false };
    let tenant = key.split('/').next().unwrap_or(key);
    let slots = view.get(Table::RunSlots, &format!("{tenant}/{run}")).ok().flatten();
    let slots = slots.and_then(|slots| serde_json::from_str::<RunSlots>(&slots).ok());
    slots.is_some_and(|slots| slots.debounced.is_some())
}

/// Whether this is the row of a debounced run that stands for more than one start.
fn is_taken_in(table: Table, value: Option<&str>) -> bool {
    let slots = value.filter(|_| table == Table::RunSlots).map(serde_json::from_str::<RunSlots>);
    let debounced = slots.and_then(Result::ok).and_then(|slots| slots.debounced);
    debounced.is_some_and(|debounced| debounced.quiet.starts > 1)
}

fn lose_first(writes: &mut Vec<Write>, is_lost: impl Fn(&Write) -> bool) {
    if let Some(position) = writes.iter().position(is_lost) {
        writes.remove(position);
    }
}
