//! Events that are sent to runs, for steps that wait for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fingerprint::Fingerprint;
use crate::limit::escaped;
use crate::run::advance::size;
use crate::{EventId, EventKey, EventName, StepKey};

/// Bytes of the data of one event, as compact JSON.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// Events of one run that no step has taken, and their bytes: each turn that keeps one more writes all of them.
pub const UNTAKEN_MAX: EventTally = EventTally { count: 100, bytes: 1 << 20 };

/// Events that one run ever gets: their ids are remembered with it.
pub const RUN_EVENTS_MAX: u32 = 10_000;

/// How long an event that was sent to a key is kept for a step that does not wait yet, and how long its id is remembered.
pub const KEYED_KEPT: Duration = Duration::from_hours(24);

/// Events that a tenant has sent to keys and that are remembered, and the bytes of those that are kept.
pub const KEYED_MAX: EventTally = EventTally { count: 10_000, bytes: 64 << 20 };

/// Events that are kept for one name and key: the commit that begins to wait takes all of them.
pub const KEPT_OF_KEY_MAX: u32 = 100;

/// Runs that one step of the store delivers an event to.
pub const SPREAD_AT_ONCE_MAX: u32 = 100;

/// An event as its sender wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentEvent {
    /// The same id again is the same event.
    pub id: EventId,
    pub name: EventName,
    /// Sent to the runs that wait for this key, and not to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<EventKey>,
    pub data: Value,
    /// Who sent it.
    pub by: String,
}

impl SentEvent {
    /// Its share of what a run may keep.
    pub fn tally(&self) -> EventTally {
        EventTally { count: 1, bytes: size::size(&self.data) }
    }

    /// Of what must be the same if it is sent again.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_event(&self.name, self.key.as_ref(), &self.data)
    }

    /// Where those wait that it is sent to; none if it is sent to one run.
    pub fn place(&self) -> Option<String> {
        self.key.as_ref().map(|key| place(&self.name, key))
    }

    /// As expressions read it.
    pub fn shown(&self) -> Value {
        let Self { id, name, key, data, by } = self;
        json!({"id": id, "name": name, "key": key, "data": data, "by": by})
    }
}

/// A name and a key, as part of the keys of rows.
fn place(name: &EventName, key: &EventKey) -> String {
    format!("{name}/{}", escaped(key.as_str()))
}

/// Events, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTally {
    pub count: u32,
    pub bytes: u64,
}

impl EventTally {
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { count: self.count.saturating_sub(other.count), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }

    /// Whether the run may get one more event: it got these so far, and its turns have used up those.
    pub fn has_room(self, used: Self, more: Self) -> bool {
        let untaken = self.plus(more);
        self.count < RUN_EVENTS_MAX
            && untaken.count.saturating_sub(used.count) <= UNTAKEN_MAX.count
            && untaken.bytes.saturating_sub(used.bytes) <= UNTAKEN_MAX.bytes
    }
}

/// The events that a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AwaitedEvent {
    pub name: EventName,
    /// The step also takes what is sent to this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<EventKey>,
}

impl AwaitedEvent {
    pub fn accepts(&self, event: &SentEvent) -> bool {
        self.name == event.name && (event.key.is_none() || self.key == event.key)
    }
}

impl std::fmt::Display for AwaitedEvent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            None => write!(out, "event `{}`", self.name),
            Some(key) => write!(out, "event `{}` with key `{key}`", self.name),
        }
    }
}

/// A step that waits for what is sent to a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventWaiter {
    pub step: StepKey,
    pub name: EventName,
    pub key: EventKey,
}

impl EventWaiter {
    /// The name and the key that it waits for.
    pub fn place(&self) -> String {
        place(&self.name, &self.key)
    }
}

/// What a turn does about waits for keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitEffects {
    pub begun: Vec<EventWaiter>,
    pub ended: Vec<EventWaiter>,
}

impl WaitEffects {
    /// Drops waits that this turn both began and ended.
    pub(crate) fn drop_undone(&mut self) {
        let Self { begun, ended } = self;
        let undone: Vec<EventWaiter> =
            begun.iter().filter(|waiter| ended.contains(waiter)).cloned().collect();
        begun.retain(|waiter| !undone.contains(waiter));
        ended.retain(|waiter| !undone.contains(waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_room_for_so_many_events_that_no_step_has_taken() {
        let one = EventTally { count: 1, bytes: 10 };
        let full = EventTally { count: UNTAKEN_MAX.count, bytes: 0 };
        assert!(!full.has_room(EventTally::default(), one));
        assert!(full.has_room(one, one), "one was used up");
        let large = EventTally { count: 1, bytes: UNTAKEN_MAX.bytes };
        assert!(!large.has_room(EventTally::default(), one));
        assert!(large.has_room(large, one));
        let all = EventTally { count: RUN_EVENTS_MAX, bytes: 0 };
        assert!(!all.has_room(all, one), "no more, taken or not");
    }
}
