//! How requests are serialized for a store on another machine: times in milliseconds, and documents as text.

use std::time::Duration;

use interlock_model::EventId;
use interlock_model::event::SentEvent;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::run::InboxEvent;
use interlock_model::time::millis;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

pub(crate) fn as_millis<S: Serializer>(
    time: &(impl Into<Option<Duration>> + Copy),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*time).into().map(millis).serialize(serializer)
}

/// The store keeps the text and never looks into it.
pub(crate) fn as_document<S: Serializer>(
    document: &impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde_json::to_string(document).map_err(S::Error::custom)?.serialize(serializer)
}

/// A document for an inbox, with what the store counts and compares beside it.
pub(crate) fn as_sent_event<S: Serializer>(event: &SentEvent, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Sent<'a> {
        id: &'a EventId,
        fingerprint: Fingerprint,
        bytes: u64,
        place: Option<String>,
        #[serde(serialize_with = "as_document")]
        inbox: InboxEvent,
    }
    let inbox = InboxEvent::Event(Box::new(event.clone()));
    let (fingerprint, bytes, place) = (event.fingerprint(), event.tally().bytes, event.place());
    Sent { id: &event.id, fingerprint, bytes, place, inbox }.serialize(serializer)
}
