//! Events: each that was acknowledged is in the inbox of its run, kept, or taken, and by one step.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::StoreError;
use interlock_backend::events::EventOutcome;
use interlock_backend::local::Table;
use interlock_backend::verbs::SendEvent;
use interlock_model::event::SentEvent;
use interlock_model::run::{InboxEvent, RunStatus};
use interlock_model::step::StepRun;
use serde::Deserialize;

use super::{Checker, Write};
use crate::{Invariant, workflows};

/// What the rows say of the events of one run.
#[derive(Default)]
struct RunEvents {
    /// Acknowledged.
    sent: BTreeSet<String>,
    /// By row of the inbox.
    posted: BTreeMap<String, String>,
    /// By step: what is kept in its row.
    kept: BTreeMap<String, Vec<SentEvent>>,
    /// Steps that wait.
    waiting: BTreeSet<String>,
    /// By step.
    taken: BTreeMap<String, String>,
    has_ended: bool,
}

/// By run, as it stands in the keys.
#[derive(Default)]
pub(super) struct EventRows(BTreeMap<String, RunEvents>);

#[derive(Deserialize)]
struct Status {
    status: RunStatus,
}

/// The run that a row belongs to, and the rest of the key.
fn split(key: &str) -> Option<(String, &str)> {
    let mut parts = key.splitn(3, '/');
    let (tenant, run) = (parts.next()?, parts.next()?);
    Some((format!("{tenant}/{run}"), parts.next().unwrap_or_default()))
}

impl EventRows {
    fn take(&mut self, (table, key, value): &Write) {
        let Some((run, rest)) = split(key) else { return };
        let value = value.as_deref();
        match (table, value) {
            (Table::RunEvents, _) => {
                let sent = &mut self.0.entry(run).or_default().sent;
                if value.is_some() {
                    sent.insert(rest.to_owned())
                } else {
                    sent.remove(rest)
                };
            }
            (Table::Inbox, _) => {
                let event = value.filter(|value| value.starts_with(r#"{"event""#));
                let read = event.and_then(|event| serde_json::from_str(event).ok());
                if let Some(InboxEvent::Event(event)) = read {
                    let posted = &mut self.0.entry(run).or_default().posted;
                    posted.insert(rest.to_owned(), event.id.to_string());
                } else if let Some(run) = self.0.get_mut(&run) {
                    run.posted.remove(rest);
                }
            }
            (Table::Steps, _) => self.take_step(&run, rest, value),
            (Table::Heads, _) => {
                let status = value.and_then(|head| serde_json::from_str::<Status>(head).ok());
                if status.is_none() {
                    self.0.remove(&run);
                } else if let Some(run) = self.0.get_mut(&run) {
                    run.has_ended = status.is_some_and(|head| head.status.is_final());
                }
            }
            _ => {}
        }
    }

    fn take_step(&mut self, run: &str, step: &str, value: Option<&str>) {
        let is_about_events =
            value.is_some_and(|row| row.contains(r#""awaits""#) || row.contains(r#""kept_events""#));
        if !is_about_events && !self.0.contains_key(run) {
            return;
        }
        let Some(row) = value.and_then(|row| serde_json::from_str::<StepRun>(row).ok()) else { return };
        let events = self.0.entry(run.to_owned()).or_default();
        if row.awaits.is_some() {
            events.waiting.insert(step.to_owned());
        } else {
            events.waiting.remove(step);
        }
        let taken = row.output.as_ref().and_then(|output| output["id"].as_str());
        if let Some(id) = taken.filter(|_| workflows::AWAITING.contains(&step)) {
            events.taken.insert(step.to_owned(), id.to_owned());
        }
        events.kept.insert(step.to_owned(), row.kept_events);
    }
}

impl RunEvents {
    fn judge(&self) -> Option<(Invariant, String)> {
        if self.has_ended {
            return None;
        }
        let kept: Vec<&SentEvent> = self.kept.values().flatten().collect();
        let is_somewhere = |id: &String| {
            self.posted.values().chain(self.taken.values()).any(|found| found == id)
                || kept.iter().any(|event| event.id.as_str() == id)
        };
        if let Some(lost) = self.sent.iter().find(|id| !is_somewhere(id)) {
            return Some((Invariant::EventArrives, format!("event {lost} was acknowledged and is lost")));
        }
        let fits = |step: &String, event: &SentEvent| {
            event.data["n"].as_u64().is_some_and(|number| workflows::takes(step, event.name.as_str(), number))
        };
        for step in &self.waiting {
            if let Some(event) = kept.iter().find(|event| fits(step, event)) {
                let what = format!("step {step} waits, and event {} that it takes is kept", event.id);
                return Some((Invariant::EventArrives, what));
            }
        }
        let taken: BTreeSet<&String> = self.taken.values().collect();
        let is_once = taken.len() == self.taken.len();
        (!is_once).then(|| (Invariant::EventOnce, format!("an event was taken twice: {:?}", self.taken)))
    }
}

impl Checker {
    /// Judges what one decision wrote about events.
    pub(super) fn judge_events(&mut self, writes: &[Write]) {
        let rows = self.tables.events();
        for write in writes {
            rows.take(write);
        }
        let runs: BTreeSet<String> =
            writes.iter().filter_map(|(_, key, _)| split(key).map(|(run, _)| run)).collect();
        for run in runs {
            if let Some((invariant, what)) = self.tables.events().0.get(&run).and_then(RunEvents::judge) {
                self.violate(invariant, format!("run {run}: {what}"));
            }
        }
    }

    pub(crate) fn event_sent(&mut self, asked: &SendEvent, answer: &Result<EventOutcome, StoreError>) {
        let name = (asked.run, asked.event.id.clone());
        let outcome = answer.as_ref().ok();
        match outcome {
            Some(EventOutcome::Sent) => {
                self.counts.events_sent += 1;
                let is_new = self.sent_events.insert(name);
                self.require(is_new, Invariant::EventOnce, || {
                    format!("event {} was posted to run {} twice", asked.event.id, asked.run)
                });
            }
            Some(EventOutcome::AlreadySent) => {
                self.counts.events_sent_again += 1;
                let is_known = self.sent_events.contains(&name);
                self.require(is_known, Invariant::AnswersAreTrue, || {
                    format!("event {} of run {} was never sent", asked.event.id, asked.run)
                });
            }
            Some(EventOutcome::RunEnded) => self.counts.events_too_late += 1,
            Some(EventOutcome::IdReused) | None => {}
        }
    }
}
