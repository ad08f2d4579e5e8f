//! Child runs: asked for by the commit of a turn, started once, or refused.

use std::time::Duration;

use interlock_model::TenantId;
use interlock_model::child::NewChild;
use interlock_model::limit::place::Blocked;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::step::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// The tenant's children that are to be started and are due. The caller is to settle them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcquireChildStarts {
    pub tenant: TenantId,
    /// How long a child is left to the instance that acquired it.
    #[serde(serialize_with = "wire::as_millis")]
    pub in_progress: Duration,
    pub limit: usize,
}
verb!(write => AcquireChildStarts, "acquire_child_starts", "acquire children to start", Vec<NewChild>);

/// What is to be done with a child that a step asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ChildSettlement {
    /// It starts, or waits for the limits that count children.
    Start {
        /// If it is not the current version, nothing is done.
        workflow_version: u32,
        /// The tenant's named limits that `claims` was made by. If they have changed, nothing is done.
        limits_revision: u64,
        /// The groups of limits that count children, the narrowest first. Those of runs above it are ignored.
        claims: Vec<SlotClaim>,
    },
    /// Its step has the reason in its run's inbox.
    Refuse { code: ErrorCode, message: String, retryable: bool },
}

/// The answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum ChildSettled {
    Started,
    /// It exists, and waits for a slot of this limit.
    Queued(Blocked),
    Refused,
    /// A limit is full and rejects; nothing was changed.
    LimitReached(Blocked),
    /// A limit is full, and as many runs wait as may; nothing was changed.
    QueueFull(Blocked),
    /// The workflow or the limits have changed; nothing was changed. Load them and retry.
    Outdated,
    /// Its step does not wait for it any more, or it was settled before.
    NotWanted,
}

/// Starts a child that is still wanted, or reports to its parent why not, in one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettleChildStart {
    pub tenant: TenantId,
    pub child: NewChild,
    pub settlement: ChildSettlement,
}
verb!(write => SettleChildStart, "settle_child_start", "settle the start of a child", ChildSettled);
