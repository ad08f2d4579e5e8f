//! Results under the lease of their run: recorded by the instance that acquires the run, deferred while another has it.

use std::time::Duration;

use interlock_model::job::JobOutcome;
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, InstanceId, JobId, TenantId};
use serde::{Deserialize, Serialize};

use crate::runs::AcquiredRun;
use crate::verb::verb;
use crate::wire;

/// Records a result and acquires its run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliverResult {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    /// The edge that the result came over; none if that was checked before.
    pub edge: Option<Edge>,
    pub outcome: JobOutcome,
    /// Which instance acquires the run, and for how long.
    pub holder: InstanceId,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
}

/// The answer to a delivery.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum DeliveryOutcome {
    /// Another instance holds the run. Nothing was written.
    Busy,
    /// The job has ended, and the result waits in the inbox of the run, which is a suspect or quarantined.
    Posted,
    /// The job has ended and the run is the caller's, with the result in its inbox.
    Recorded(Box<AcquiredRun>),
    /// This worker had reported the same before.
    AlreadyRecorded,
}

/// Keeps a result for a later delivery.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeferResult {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    /// The edge that the result came over; none if that was checked before.
    pub edge: Option<Edge>,
    pub outcome: JobOutcome,
    /// How often it was delivered so far.
    pub deliveries: u32,
    /// How long ago it came, as far as the caller knows. Only the first call counts.
    #[serde(serialize_with = "wire::as_millis")]
    pub waited: Duration,
    #[serde(serialize_with = "wire::as_millis")]
    pub delay: Duration,
    /// How long the job's lease lasts after the delay, at least.
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
}

/// The answer to deferring a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum DeferOutcome {
    /// The store has the result, and delivers it again.
    Deferred,
    /// The same result was recorded before.
    AlreadyRecorded,
}

/// A deferred result that is due.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DeferredResult {
    pub job: JobId,
    pub fence: Fence,
    pub outcome: JobOutcome,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// How long ago it came for the first time.
    pub waited: Duration,
}

/// How long an acquired result is left to the instance that acquired it.
pub const IN_PROGRESS: Duration = Duration::from_secs(30);

verb!(write => DeliverResult, "deliver_result", "record a result", DeliveryOutcome);

verb!(write => DeferResult, "defer_result", "defer a result", DeferOutcome);

/// The tenant's deferred results that are due, oldest first. They are due again after [`IN_PROGRESS`], unless they
/// are recorded or deferred.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AcquireDeferredResults {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(write => AcquireDeferredResults, "acquire_deferred_results", "acquire deferred results", Vec<DeferredResult>);
