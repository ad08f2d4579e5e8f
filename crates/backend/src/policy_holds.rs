//! Held jobs: open, in no queue, and not to be claimed until a policy or a person has decided.

use std::time::Duration;

use interlock_model::approval::Approval;
use interlock_model::dispatch_policy::{Hold, HoldReason, Throttle};
use interlock_model::job::NewJob;
use interlock_model::{JobId, Tag, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// The tenant's held jobs that are due. The caller is to settle them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcquireHeldJobs {
    pub tenant: TenantId,
    /// Jobs that are due within this time count as due.
    #[serde(serialize_with = "wire::as_millis")]
    pub ahead: Duration,
    /// How long a job is left to the instance that acquired it.
    #[serde(serialize_with = "wire::as_millis")]
    pub in_progress: Duration,
    pub limit: usize,
}

/// A held job that is due.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HeldDue {
    pub job: NewJob,
    pub hold: Hold,
    /// The store's clock.
    pub now: Timestamp,
}

/// What a policy decided about a held job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Settlement {
    /// It goes to its queue.
    Release {
        /// For the timeline.
        message: Option<String>,
    },
    /// It goes to its queue if its rule may release one more of the tenant's jobs in this period. Else it waits for a later
    /// one.
    ReleaseWithin { rule: Tag, throttle: Throttle, detail: String, message: Option<String> },
    /// It ends, with the reason in its run's inbox.
    Deny { reason: String },
    /// It is due again later. The timeline has it, if the reason is new.
    Wait { reason: HoldReason, detail: String, wait: Duration },
    /// It waits for an approval. Approved, it goes to its queue; rejected, it ends.
    Ask { approval: Approval, detail: String },
}

/// The answer to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Settled {
    Released,
    Denied,
    /// It is due again at this time.
    Waiting(Timestamp),
    Asked,
    /// It was settled before, or waits for an approval, or has ended. Nothing was changed.
    NotHeld,
}

verb!(write => AcquireHeldJobs, "acquire_held_jobs", "acquire held jobs", Vec<HeldDue>);

/// Does with a held job what the policy decided, in one step. The first decision that ends the hold counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettleHeldJob {
    pub tenant: TenantId,
    pub job: JobId,
    pub settlement: Settlement,
}
verb!(write => SettleHeldJob, "settle_held_job", "settle a held job", Settled);
