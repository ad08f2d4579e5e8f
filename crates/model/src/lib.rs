//! The nouns of Interlock and the pure rules over them.
//!
//! Nothing here waits, reads a clock, draws a random number or touches a disk. Time and randomness are arguments, so a
//! simulation replays exactly from its seed and every backend follows the same rules.

mod names;

pub mod admission;
pub mod api_key;
pub mod approval;
pub mod budget;
pub mod child;
pub mod contention;
pub mod dead_letter;
pub mod dispatch_policy;
pub mod doctor;
pub mod document;
pub mod event;
pub mod expression;
pub mod fingerprint;
pub mod history;
pub mod ids;
pub mod job;
pub mod json_text;
pub mod lease;
pub mod limit;
pub mod lock;
pub mod meta;
pub mod queue;
pub mod retry;
pub mod run;
pub mod scheduling;
pub mod spelling;
pub mod step;
pub mod tenant;
pub mod time;
pub mod trace;
pub mod why;
pub mod workflow;

pub use ids::{
    ApiKeyId, BudgetName, BudgetRequest, EventId, EventKey, EventName, IdempotencyKey, InstanceId, InvalidId,
    JobId, LabelName, LimitName, LockOwner, LockRequest, LockToken, PermitId, Resource, RolloutId, RunId,
    StepId, StepKey, Tag, TenantId, Topic, WorkerId, WorkflowId,
};
pub use lease::Fence;
pub use time::{Clock, Timestamp};

/// For [`named_enum!`] in other crates.
#[doc(hidden)]
pub use utoipa;
