//! Events that are sent to keys: the index of those who wait is true, and nothing is kept while a run waits for it.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::StoreError;
use interlock_backend::events::KeyedEventOutcome;
use interlock_backend::local::Table;
use interlock_backend::verbs::SendKeyedEvent;
use interlock_model::StepKey;
use interlock_model::event::{AwaitedEvent, EventWaiter};
use interlock_model::run::{InboxEvent, RunStatus};
use interlock_model::step::StepRun;
use serde::Deserialize;

use super::{Checker, Write};
use crate::Invariant;

/// What the rows of a tenant say of waits for keys.
#[derive(Default)]
pub(super) struct KeyedRows {
    /// `name/key/run/step` by the index, and by the steps of live runs.
    indexed: BTreeSet<String>,
    waiting: BTreeMap<String, String>,
    ended: BTreeSet<String>,
    /// `name/key/time/event`.
    kept: BTreeSet<String>,
    /// Each event that came to each run.
    delivered: BTreeSet<(String, String)>,
    repeated: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    status: RunStatus,
}

impl KeyedRows {
    fn take(&mut self, (table, key, value): &Write) {
        let Some((_, place)) = key.split_once('/') else { return };
        match (table, value) {
            (Table::EventWaiters, Some(_)) => drop(self.indexed.insert(place.to_owned())),
            (Table::EventWaiters, None) => drop(self.indexed.remove(place)),
            (Table::KeptEvents, Some(_)) => drop(self.kept.insert(place.to_owned())),
            (Table::KeptEvents, None) => drop(self.kept.remove(place)),
            (Table::Steps, value) => {
                self.waiting.remove(place);
                if let Some(entry) = value.as_deref().and_then(|row| entry(place, row)) {
                    self.waiting.insert(place.to_owned(), entry);
                }
            }
            (Table::Heads, value) => {
                let head = value.as_deref().and_then(|head| serde_json::from_str::<Status>(head).ok());
                if head.is_none_or(|head| head.status.is_final()) {
                    self.ended.insert(place.to_owned());
                }
            }
            (Table::Inbox, Some(value)) => {
                let Ok(InboxEvent::Event(event)) = serde_json::from_str(value) else { return };
                let run = place.split('/').next().unwrap_or_default().to_owned();
                if event.key.is_some() && !self.delivered.insert((run, event.id.to_string())) {
                    self.repeated = Some(format!("event {} came to the run of {place} twice", event.id));
                }
            }
            _ => {}
        }
    }

    fn judge(&mut self) -> Option<(Invariant, String)> {
        if let Some(repeated) = self.repeated.take() {
            return Some((Invariant::EventOnce, repeated));
        }
        let is_live = |place: &str| !self.ended.contains(place.split('/').next().unwrap_or_default());
        let waiting = self.waiting.iter().filter(|(place, _)| is_live(place)).map(|(_, entry)| entry);
        let waiting: BTreeSet<&String> = waiting.collect();
        let wrong = self.indexed.iter().collect::<BTreeSet<_>>();
        if let Some(entry) = wrong.symmetric_difference(&waiting).next() {
            let what = format!("{entry} is in the index of those who wait, or waits, and not both");
            return Some((Invariant::EventArrives, what));
        }
        let place = |entry: &str| entry.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        let awaited: BTreeSet<String> = self.indexed.iter().map(|entry| place(entry)).collect();
        let missed = self.kept.iter().find(|kept| awaited.contains(&place(kept)));
        missed.map(|kept| (Invariant::EventArrives, format!("{kept} is kept, and a step waits for it")))
    }
}

/// The entry of the index for a step, if it waits for a key.
fn entry(place: &str, row: &str) -> Option<String> {
    if !row.contains(r#""awaits""#) {
        return None;
    }
    let AwaitedEvent { name, key } = serde_json::from_str::<StepRun>(row).ok()?.awaits?;
    let step: StepKey = place.split('/').nth(1)?.parse().ok()?;
    Some(format!("{}/{place}", EventWaiter { step, name, key: key? }.place()))
}

impl Checker {
    /// Judges what one decision wrote about waits for keys of a tenant.
    pub(super) fn judge_keyed_events(&mut self, tenant: &str, writes: &[Write]) {
        let of_tenant = |key: &str| key.split('/').next() == Some(tenant);
        let rows = self.tables.keyed_events(tenant);
        for write in writes.iter().filter(|(_, key, _)| of_tenant(key)) {
            rows.take(write);
        }
        if let Some((invariant, what)) = rows.judge() {
            self.violate(invariant, format!("tenant {tenant}: {what}"));
        }
    }

    pub(crate) fn keyed_event_sent(
        &mut self,
        asked: &SendKeyedEvent,
        answer: &Result<KeyedEventOutcome, StoreError>,
    ) {
        let id = (asked.tenant.clone(), asked.event.id.clone());
        match answer {
            Ok(KeyedEventOutcome::Delivered { runs, .. }) => {
                self.counts.keyed_events_delivered += u64::from(*runs);
                self.new_keyed_event(id);
            }
            Ok(KeyedEventOutcome::Kept) => {
                self.counts.keyed_events_kept += 1;
                self.new_keyed_event(id);
            }
            Ok(KeyedEventOutcome::AlreadySent) => {
                let is_known = self.keyed_events.contains(&id);
                self.require(is_known, Invariant::AnswersAreTrue, || format!("{id:?} was never sent"));
            }
            Ok(KeyedEventOutcome::IdReused) | Err(_) => {}
        }
    }

    fn new_keyed_event(&mut self, id: (interlock_model::TenantId, interlock_model::EventId)) {
        let what = format!("event {id:?} was sent twice");
        let is_new = self.keyed_events.insert(id);
        self.require(is_new, Invariant::EventOnce, || what);
    }
}
