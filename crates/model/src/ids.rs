//! Typed names, validated once when they enter the system.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;

/// A text that is not a valid name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not valid: {rule}")]
pub struct InvalidId {
    kind: &'static str,
    text: String,
    rule: &'static str,
}

impl InvalidId {
    fn new(kind: &'static str, text: &str, rule: &'static str) -> Self {
        // A hostile name may be megabytes long; the message must not be.
        Self { kind, text: text.chars().take(80).collect(), rule }
    }
}

/// What a text must look like to be a name.
struct NameRule {
    text: &'static str,
    is_valid: fn(&str) -> bool,
    /// The same as a regular expression, for the `OpenAPI` document.
    pattern: &'static str,
}

const IDENTIFIER: NameRule = NameRule {
    text: "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    is_valid: |text| is_name(text, 64, b"._-"),
    pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
};
const TOPIC: NameRule = NameRule {
    text: "1 to 128 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    is_valid: |text| is_name(text, 128, b"._-"),
    pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
};
const TAG: NameRule = NameRule {
    text: "1 to 64 letters, digits, '.', '_', '-' or ':', beginning with a letter or digit",
    is_valid: |text| is_name(text, 64, b"._-:"),
    pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$",
};
const PROCESS: NameRule = NameRule {
    text: "1 to 128 letters, digits, '.', '_', '-', ':' or '@', beginning with a letter or digit",
    is_valid: |text| is_name(text, 128, b"._-:@"),
    pattern: "^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
};
const ALPHANUMERIC: NameRule = NameRule {
    text: "1 to 64 letters and digits",
    is_valid: |text| is_name(text, 64, b""),
    pattern: "^[A-Za-z0-9]{1,64}$",
};
const VISIBLE: NameRule = NameRule {
    text: "1 to 255 visible ASCII characters",
    is_valid: |text| (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()),
    pattern: "^[!-~]{1,255}$",
};
const PRINTABLE: NameRule = NameRule {
    text: "1 to 255 bytes of text without control characters",
    is_valid: |text| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control),
    pattern: r"^[^\u0000-\u001f\u007f-\u009f]{1,255}$",
};

fn is_name(text: &str, bytes_max: usize, extra: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || extra.contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= bytes_max
        && bytes.iter().all(allowed)
}

/// The conversions through which serde reads and writes a type as text, by its `FromStr` and `Display`, and its schema.
macro_rules! string_conversions {
    ($type:ty, $error:ty, $pattern:expr) => {
        impl TryFrom<String> for $type {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let text = utoipa::openapi::schema::ObjectBuilder::new().pattern(Some($pattern));
                text.schema_type(utoipa::openapi::schema::Type::String).into()
            }
        }

        impl utoipa::ToSchema for $type {}
    };
}
pub(crate) use string_conversions;

macro_rules! names {
    ($($(#[$doc:meta])* $type:ident = $kind:literal, $rule:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if ($rule.is_valid)(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId::new($kind, text, $rule.text))
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:?}", &*self.0)
            }
        }

        string_conversions!($type, InvalidId, $rule.pattern);
    )*};
}

names! {
    /// The owner of runs, limits and slots.
    TenantId = "tenant id", IDENTIFIER;
    /// A workflow of one tenant.
    WorkflowId = "workflow id", IDENTIFIER;
    /// A step of one workflow.
    StepId = "step id", IDENTIFIER;
    /// A limit of one tenant.
    LimitName = "limit", IDENTIFIER;
    /// A label of a run.
    LabelName = "label", IDENTIFIER;
    /// A rollout of a retry policy.
    RolloutId = "rollout id", IDENTIFIER;
    /// The queue that a job waits in and a worker serves.
    Topic = "topic", TOPIC;
    /// A requirement or risk of a job, or a capability of a worker.
    Tag = "tag", TAG;
    /// A worker process, by its self-assigned name.
    WorkerId = "worker id", PROCESS;
    /// One start of one Interlock process. Never reused, so that an old holder is never mistaken for a new one.
    InstanceId = "instance id", PROCESS;
    /// The public half of an API key.
    ApiKeyId = "key id", ALPHANUMERIC;
    /// A client's key for one start, so that a retry does not start it twice.
    IdempotencyKey = "idempotency key", VISIBLE;
    /// The name that a tenant's lock protects.
    Resource = "resource", VISIBLE;
    /// The holder's self-assigned name. It proves nothing.
    LockOwner = "owner", PRINTABLE;
    /// Proof of one lease on a lock.
    LockToken = "token", VISIBLE;
    /// One request for a lock. A retry with the same id is the same request.
    LockRequest = "request id", VISIBLE;
    /// A budget of one tenant.
    BudgetName = "budget name", IDENTIFIER;
    /// One reservation from a budget. A retry with the same id is the same reservation.
    BudgetRequest = "request id", VISIBLE;
    /// What is sent to runs, by its name.
    EventName = "event name", IDENTIFIER;
    /// One event. The same id again is the same event.
    EventId = "event id", VISIBLE;
    /// What events are sent to that no run is named for.
    EventKey = "event key", PRINTABLE;
    /// A reservation that was granted.
    PermitId = "permit", ALPHANUMERIC;
}

/// A run. Unique everywhere; sorts by the time of its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Uuid);

impl RunId {
    /// A new id (UUID version 7) from a time and ten random bytes.
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(at.as_millis(), &random).into_uuid())
    }

    /// The creation time in the id, by the clock of the process that created it.
    pub fn made_at(self) -> Timestamp {
        let bytes = self.0.as_bytes();
        Timestamp::from_millis(bytes[..6].iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte)))
    }

    pub fn number(self) -> u128 {
        self.0.as_u128()
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::new("run id", text, "it must be a lower-case hyphenated UUID");
        let uuid = Uuid::try_parse(text).map_err(|_| invalid())?;
        // Clients compare ids as text, so only one spelling is valid.
        if uuid.hyphenated().to_string() == text { Ok(Self(uuid)) } else { Err(invalid()) }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(out)
    }
}

/// A step of a run, or one item of a step that fans out (`build[3]`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepKey {
    pub step: StepId,
    pub item: Option<u32>,
}

impl StepKey {
    pub fn whole(step: &StepId) -> Self {
        Self { step: step.clone(), item: None }
    }

    pub fn item(step: &StepId, item: u32) -> Self {
        Self { step: step.clone(), item: Some(item) }
    }
}

impl FromStr for StepKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let Some((step, rest)) = text.split_once('[') else {
            return Ok(Self { step: text.parse()?, item: None });
        };
        let invalid = || InvalidId::new("step", text, "an item is written step[number]");
        let digits = rest.strip_suffix(']').ok_or_else(invalid)?;
        let item = number(digits).ok_or_else(invalid)?;
        Ok(Self { step: step.parse()?, item: Some(item) })
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            None => write!(out, "{}", self.step),
            Some(item) => write!(out, "{}[{item}]", self.step),
        }
    }
}

/// One dispatch of one step: `<run>:<step>@<attempt>`. A repeated dispatch is a new job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId {
    pub run: RunId,
    pub step: StepKey,
    pub attempt: u32,
}

impl FromStr for JobId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::new("job id", text, "a job id is written <run>:<step>@<attempt>");
        let (run, rest) = text.split_once(':').ok_or_else(invalid)?;
        let (step, digits) = rest.rsplit_once('@').ok_or_else(invalid)?;
        let attempt = number(digits).ok_or_else(invalid)?;
        Ok(Self { run: run.parse()?, step: step.parse()?, attempt })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}@{}", self.run, self.step, self.attempt)
    }
}

/// Only one spelling of a number is valid, because clients compare ids as text.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

macro_rules! compound_ids {
    ($($type:ty = $pattern:expr;)*) => {$(
        string_conversions!($type, InvalidId, $pattern);

        impl fmt::Debug for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }
    )*};
}

compound_ids! {
    RunId = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    StepKey = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(\[(0|[1-9][0-9]{0,9})\])?$";
    JobId = concat!(
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:",
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(\[(0|[1-9][0-9]{0,9})\])?@(0|[1-9][0-9]{0,9})$",
    );
}

#[cfg(test)]
mod tests;
