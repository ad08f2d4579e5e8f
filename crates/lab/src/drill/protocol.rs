//! The messages between the drill and its participants: lines of JSON on standard input and standard output.

use std::path::PathBuf;

use interlock_model::{Resource, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use super::plan::{DrillActor, DrillOperation};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ParticipantRole {
    Holder,
    Contender,
}

/// The first line to a participant. It carries the API key, which arguments would show in process listings.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ParticipantSettings {
    pub(super) role: ParticipantRole,
    pub(super) gateway: String,
    pub(super) api_key: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) worker: WorkerId,
    pub(super) topic: Topic,
    pub(super) resource: Resource,
    pub(super) ttl_ms: u64,
    /// The folder of the ledger.
    pub(super) folder: PathBuf,
    pub(super) guarded: bool,
}

/// Every further line to a participant, which exits when its input ends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ParticipantCommand {
    pub(super) actor: DrillActor,
    pub(super) operation: DrillOperation,
}

/// A participant's answer to a command: an operation and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Observation {
    pub(super) operation: DrillOperation,
    pub(super) fence: Option<u64>,
    pub(super) outcome: DrillOutcome,
    /// The response as shown to the user.
    pub(super) detail: String,
    /// The largest possible age of the lease when the response arrived, by the participant's clock.
    pub(super) lease_age_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DrillOutcome {
    Accepted,
    /// The other participant has the lease.
    Held,
    /// The fence is stale.
    Stale,
    /// The contender's work is the result.
    Kept,
    /// The contender's work was overwritten.
    Overwritten,
    /// No response, or one that does not say whether the operation took effect.
    Unknown,
}
