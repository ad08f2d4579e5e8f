//! Events that are sent to runs.

use std::time::Duration;

use interlock_model::event::SentEvent;
use interlock_model::{RunId, TenantId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// Puts an event into the inbox of a live run, once for each id. A run that keeps as many as it may gets no more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendEvent {
    pub tenant: TenantId,
    pub run: RunId,
    #[serde(serialize_with = "wire::as_sent_event")]
    pub event: SentEvent,
}
verb!(write => SendEvent, "send_event", "send an event", EventOutcome);

/// Sends an event to every run that waits for its key, or keeps it for the next that will. What one step cannot deliver is
/// due at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendKeyedEvent {
    pub tenant: TenantId,
    #[serde(serialize_with = "wire::as_sent_event")]
    pub event: SentEvent,
    /// How long it is kept if no run waits for it, and its id is remembered.
    #[serde(serialize_with = "wire::as_millis")]
    pub kept_for: Duration,
}
verb!(write => SendKeyedEvent, "send_keyed_event", "send an event to a key", KeyedEventOutcome);

/// The answer to an event that is sent to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum KeyedEventOutcome {
    /// It waits in the inboxes of these runs; more follow.
    Delivered { runs: u32, has_more: bool },
    /// No run waits for its key.
    Kept,
    /// The same event was sent before.
    AlreadySent,
    /// Another event was sent with this id.
    IdReused,
}

/// Delivers what is due of events that were sent to keys, and forgets those whose time is over; at most `limit` events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpreadEvents {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(write => SpreadEvents, "spread_events", "deliver events", EventsSpread);

/// What was due of events that were sent to keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct EventsSpread {
    /// Deliveries.
    pub runs: u32,
    pub forgotten: u32,
    /// More is due now.
    pub has_more: bool,
}

/// The answer to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum EventOutcome {
    /// It waits in the run's inbox.
    Sent,
    /// The same event was sent before.
    AlreadySent,
    /// Another event was sent with this id.
    IdReused,
    /// The run had ended before.
    RunEnded,
}
