//! How requests are serialized for a store on another machine: times in milliseconds, and documents as text.

use std::time::Duration;

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
