//! How requests are serialized for a store on another machine: times in milliseconds, and documents as text.

use std::time::Duration;

use interlock_model::budget::JobUsage;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::job::{EndCause, JobOutcome};
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

/// A document, with its cause and its fingerprint beside it, which the store compares, and the usage, which it counts.
pub(crate) fn as_outcome<S: Serializer>(outcome: &JobOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Outcome<'a> {
        cause: EndCause,
        fingerprint: Option<Fingerprint>,
        usage: Option<&'a JobUsage>,
        #[serde(serialize_with = "as_document")]
        document: &'a JobOutcome,
    }
    let usage = outcome.usage().filter(|usage| !usage.is_empty());
    Outcome { cause: outcome.cause(), fingerprint: outcome.fingerprint(), usage, document: outcome }
        .serialize(serializer)
}
