//! Events that are sent to runs, for steps that wait for them.

use interlock_model::{EventId, EventKey, EventName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Sends an event to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendEventRequest {
    pub name: EventName,
    /// The output of the step that takes it, at most 64 KiB; null if absent.
    #[serde(default)]
    pub data: Value,
    /// The same id again is the same event, so that a request without an answer can be repeated. One is made if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

/// Sends an event to a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendKeyedEventRequest {
    pub name: EventName,
    pub key: EventKey,
    /// The output of the steps that take it, at most 64 KiB; null if absent.
    #[serde(default)]
    pub data: Value,
    /// The same id again within a day is the same event. One is made if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

/// An event that was sent to a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentKeyedEventView {
    pub event_id: EventId,
    /// Whether it had been sent before. What became of it then is not said again.
    pub replayed: bool,
    /// Runs that it was delivered to.
    pub runs: u32,
    /// Whether it is being delivered to more.
    pub has_more: bool,
    /// No run waits for it: the next that will takes it.
    pub kept: bool,
}

/// An event that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentEventView {
    pub event_id: EventId,
    /// Whether it had been sent before.
    pub replayed: bool,
}
