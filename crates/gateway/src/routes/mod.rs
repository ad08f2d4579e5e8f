//! The endpoints. One file for each noun; each names its paths on top.

pub(crate) mod approvals;
pub(crate) mod claims;
pub(crate) mod dead_letters;
pub(crate) mod dispatch_policy;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod retry_policies;
pub(crate) mod rollouts;
pub(crate) mod runs;
pub(crate) mod starts;
pub(crate) mod status;
pub(crate) mod why;
pub(crate) mod workers;
pub(crate) mod workflows;

use axum::Json;

use crate::error::Refusal;

/// What most handlers give.
type Answer<T> = Result<Json<T>, Refusal>;
