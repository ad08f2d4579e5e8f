//! Replies of scripts, by name: the answer, or why the script refused.

mod value;

use interlock_backend::{Effect, Quota, StoreError};
use interlock_model::Fence;
use serde::Deserialize;

use crate::script::{Call, Home};
pub(crate) use value::{Unreadable, Value};

/// What a script says instead of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Refusal {
    Missing,
    Fenced { current: Fence, held: Option<Fence> },
    Conflict { reason: String },
    Quota { quota: Quota, most: u32 },
    Damaged { reason: String },
    NoBudget { name: String },
    NotSent,
}

/// The answer in a reply, or what the script refused.
pub(crate) fn read<T>(
    call: &Call,
    packed: &redis::Value,
    read: impl for<'de> FnOnce(Value<'de>) -> Result<T, Unreadable>,
) -> Result<T, StoreError> {
    judge(call, unpack(call.script.name, packed)?, read)
}

/// The same of a reply to one of several requests.
pub(crate) fn judge<'de, T>(
    call: &Call,
    reply: Value<'de>,
    read: impl FnOnce(Value<'de>) -> Result<T, Unreadable>,
) -> Result<T, StoreError> {
    let reply = accepted(call, reply)?;
    read(reply).map_err(|error| unreadable(call.script.name, &error))
}

// What follows knows no type of an answer, so that it is compiled once and not for every verb.

fn unpack<'de>(script: &str, reply: &'de redis::Value) -> Result<Value<'de>, StoreError> {
    let parts = if let redis::Value::Array(parts) = reply { parts } else { std::slice::from_ref(reply) };
    let (packed, texts) = parts.split_first().unwrap_or((reply, &[]));
    let redis::Value::BulkString(packed) = packed else {
        return Err(damaged(script, format!("{script} replied {packed:?} where names were expected")));
    };
    let mut value: Value<'de> = rmp_serde::from_slice(packed)
        .map_err(|error| damaged(script, format!("{script} replied what cannot be unpacked: {error}")))?;
    if !texts.is_empty() {
        value.put_in(texts);
    }
    Ok(value)
}

/// Of a packed reply, and of the texts that it names.
pub(crate) fn bytes_of(reply: &redis::Value) -> usize {
    let parts = if let redis::Value::Array(parts) = reply { parts } else { std::slice::from_ref(reply) };
    parts.iter().map(|part| if let redis::Value::BulkString(text) = part { text.len() } else { 0 }).sum()
}

/// The reply, unless the script refused.
fn accepted<'de>(call: &Call, reply: Value<'de>) -> Result<Value<'de>, StoreError> {
    let name = call.script.name;
    if !matches!(&reply, Value::Map(fields) if fields.iter().any(|(name, _)| *name == "refused")) {
        return Ok(reply);
    }
    Err(match Refusal::deserialize(reply).map_err(|error| unreadable(name, &error))? {
        Refusal::Missing => match (&call.missing, &call.home) {
            (Some((what, id)), _) => StoreError::NotFound { what, id: id.clone() },
            (None, Home::Lock(lock)) => {
                StoreError::NotFound { what: "lock", id: lock.resource().to_string() }
            }
            (None, Home::Tenant(_) | Home::System) => {
                damaged(name, format!("{name} misses what it never needs"))
            }
        },
        Refusal::Fenced { current, held } => {
            StoreError::Fenced { held: held.unwrap_or(Fence::NONE), current }
        }
        Refusal::Conflict { reason } => StoreError::Conflict(reason),
        Refusal::Quota { quota, most } => StoreError::QuotaReached { quota, most },
        Refusal::Damaged { reason } => damaged(name, reason),
        Refusal::NoBudget { name } => StoreError::not_found("budget", name),
        Refusal::NotSent => StoreError::Unavailable {
            action: call.action,
            effect: Effect::NotDone,
            reason: "a large document was lost on its way".to_owned(),
        },
    })
}

fn unreadable(script: &str, error: &Unreadable) -> StoreError {
    damaged(script, format!("the reply of {script} cannot be read: {error}"))
}

/// A reply that cannot be read, as an error of the contract.
pub(crate) fn damaged(script: &str, reason: String) -> StoreError {
    StoreError::Damaged { table: "redis", key: script.to_owned(), reason }
}
