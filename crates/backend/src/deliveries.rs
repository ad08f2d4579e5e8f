//! Results under the lock of their run: recorded by whoever gets the run, put off while somebody else has it.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::job::JobOutcome;
use interlock_model::{Fence, InstanceId, JobId, TenantId};

use crate::StoreError;
use crate::runs::Taken;

/// A result whose run is wanted with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportAndTake {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    pub outcome: JobOutcome,
    /// Who takes the run, and for how long.
    pub holder: InstanceId,
    pub lease: Duration,
}

/// The answer to such a result.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum ReportTaken {
    /// Somebody holds the run. Nothing was written.
    Busy,
    /// The job has ended and the run is the caller's, with the result in its inbox.
    Recorded(Box<Taken>),
    /// This worker had reported the same before.
    AlreadyRecorded,
}

/// A result that is to be delivered again later.
#[derive(Debug, Clone, PartialEq)]
pub struct PutOff {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    pub outcome: JobOutcome,
    /// How often it was delivered so far.
    pub deliveries: u32,
    /// How long ago it came, as far as its bringer knows. Only the first time counts.
    pub waited: Duration,
    pub delay: Duration,
    /// The job's lease lasts for at least so long after the delay.
    pub lease: Duration,
}

/// The answer to putting a result off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PutOffAnswer {
    /// The store has the result, and delivers it again.
    PutOff,
    /// The same result was recorded before.
    AlreadyRecorded,
}

/// A result whose time has come.
#[derive(Debug, Clone, PartialEq)]
pub struct PutOffResult {
    pub job: JobId,
    pub fence: Fence,
    pub outcome: JobOutcome,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// How long ago it came for the first time.
    pub waited: Duration,
}

/// How long a result that was taken for a delivery is left to whoever took it.
pub const IN_HAND: Duration = Duration::from_secs(30);

#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Ends the job, puts its outcome into the run's inbox and takes the run, or, if the run is held, does nothing at all.
    /// A stale result is refused and a repeated one known, whether the run is held or not.
    async fn report_and_take(&self, report: &ReportAndTake) -> Result<ReportTaken, StoreError>;

    /// Keeps a result for another delivery. A job has one; the worker's first word counts, so that another one is stale.
    /// It goes with the job's end. Should the job's lease run out before, the job ends by this result.
    async fn put_off(&self, put_off: &PutOff) -> Result<PutOffAnswer, StoreError>;

    /// The tenant's results that are due, oldest first. They are due again after [`IN_HAND`], unless something becomes of
    /// them.
    async fn take_put_off(&self, tenant: &TenantId, limit: usize) -> Result<Vec<PutOffResult>, StoreError>;
}
