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

fn is_name(text: &str, bytes_max: usize, extra: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || extra.contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= bytes_max
        && bytes.iter().all(allowed)
}

fn is_visible(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The conversions through which serde reads and writes a type as text, by its `FromStr` and `Display`, and its schema.
macro_rules! string_conversions {
    ($type:ty, $error:ty) => {
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
                String::schema()
            }
        }

        impl utoipa::ToSchema for $type {}
    };
}
pub(crate) use string_conversions;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.into())) } else { Err(InvalidId::new($kind, text, $rule)) }
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

        string_conversions!($type, InvalidId);
    };
}

name!(
    /// The owner of runs, limits and slots.
    TenantId,
    "tenant id",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64, b"._-")
);
name!(
    /// A workflow of one tenant.
    WorkflowId,
    "workflow id",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64, b"._-")
);
name!(
    /// A step of one workflow.
    StepId,
    "step id",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64, b"._-")
);
name!(
    /// The queue that a job waits in and a worker serves.
    Topic,
    "topic",
    "1 to 128 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 128, b"._-")
);
name!(
    /// A requirement or risk of a job, or a capability of a worker.
    Tag,
    "tag",
    "1 to 64 letters, digits, '.', '_', '-' or ':', beginning with a letter or digit",
    |text| is_name(text, 64, b"._-:")
);
name!(
    /// A worker process, by its self-assigned name.
    WorkerId,
    "worker id",
    "1 to 128 letters, digits, '.', '_', '-', ':' or '@', beginning with a letter or digit",
    |text| is_name(text, 128, b"._-:@")
);
name!(
    /// One start of one Interlock process. Never reused, so that an old holder is never mistaken for a new one.
    InstanceId,
    "instance id",
    "1 to 128 letters, digits, '.', '_', '-', ':' or '@', beginning with a letter or digit",
    |text| is_name(text, 128, b"._-:@")
);
name!(
    /// The public half of an API key.
    ApiKeyId,
    "key id",
    "1 to 64 letters and digits",
    |text| is_name(text, 64, b"")
);
name!(
    /// A client's key for one start, so that a retry does not start it twice.
    IdempotencyKey,
    "idempotency key",
    "1 to 255 visible ASCII characters",
    is_visible
);

name!(
    /// The name that a tenant's lock protects.
    Resource,
    "resource",
    "1 to 255 visible ASCII characters",
    is_visible
);
name!(
    /// The holder's self-assigned name. It proves nothing.
    LockOwner,
    "owner",
    "1 to 255 bytes of text without control characters",
    |text| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control)
);
name!(
    /// Proof of one lease on a lock.
    LockToken,
    "token",
    "1 to 255 visible ASCII characters",
    is_visible
);
name!(
    /// One request for a lock. A retry with the same id is the same request.
    LockRequest,
    "request id",
    "1 to 255 visible ASCII characters",
    is_visible
);

name!(
    /// A rollout of a retry policy.
    RolloutId,
    "rollout id",
    "1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
    |text| is_name(text, 64, b"._-")
);

/// A run. Unique everywhere; sorts by the time of its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Uuid);

impl RunId {
    /// A new id (UUID version 7) from a time and ten random bytes.
    #[must_use]
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(at.as_millis(), &random).into_uuid())
    }

    /// The creation time in the id, by the clock of the process that created it.
    #[must_use]
    pub fn made_at(self) -> Timestamp {
        let bytes = self.0.as_bytes();
        Timestamp::from_millis(bytes[..6].iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte)))
    }

    #[must_use]
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

string_conversions!(RunId, InvalidId);

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(out)
    }
}

impl fmt::Debug for RunId {
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
    #[must_use]
    pub fn whole(step: &StepId) -> Self {
        Self { step: step.clone(), item: None }
    }

    #[must_use]
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
        let item: u32 = digits.parse().map_err(|_| invalid())?;
        if item.to_string() != digits {
            return Err(invalid());
        }
        Ok(Self { step: step.parse()?, item: Some(item) })
    }
}

string_conversions!(StepKey, InvalidId);

impl fmt::Display for StepKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            None => write!(out, "{}", self.step),
            Some(item) => write!(out, "{}[{item}]", self.step),
        }
    }
}

impl fmt::Debug for StepKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
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
        let attempt: u32 = digits.parse().map_err(|_| invalid())?;
        if attempt.to_string() != digits {
            return Err(invalid());
        }
        Ok(Self { run: run.parse()?, step: step.parse()?, attempt })
    }
}

string_conversions!(JobId, InvalidId);

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}@{}", self.run, self.step, self.attempt)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests;
