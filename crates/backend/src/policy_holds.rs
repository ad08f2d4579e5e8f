//! Held jobs: open, in no queue, and not to be claimed until a policy or a person has decided and their budget is reserved.

use std::time::Duration;

use interlock_model::approval::Approval;
use interlock_model::budget::{BudgetGroup, Window};
use interlock_model::dispatch_policy::{Hold, HoldReason, Throttle};
use interlock_model::job::NewJob;
use interlock_model::{BudgetName, JobId, PermitId, RunId, Tag, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budgets::Reserved;
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
    Wait {
        reason: HoldReason,
        detail: String,
        wait: Duration,
        /// Until when the caller had acquired it. A job that is due sooner was woken meanwhile, and stays due.
        acquired_until: Option<Timestamp>,
    },
    /// It waits for an approval. Approved, it goes to its queue; rejected, it ends.
    Ask { approval: Approval, detail: String },
    /// It reserves from its budget and goes to its queue, or nothing changes. Only a job whose budget is next does.
    Reserve {
        reservation: JobReservation,
        /// For the timeline.
        message: Option<String>,
    },
    /// It ends: its budget has too little left.
    Exhaust { reason: String },
}

/// What a job reserves, as computed from the document of its budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobReservation {
    pub name: BudgetName,
    /// Of the document.
    pub revision: u64,
    pub window: Window,
    pub group: BudgetGroup,
    /// The run whose amount it is.
    pub run: Option<RunId>,
    /// The same job has the same.
    pub permit: PermitId,
    /// Whether the job waits for its turn if too little is left.
    pub is_queued: bool,
    pub wall_lead: i64,
}

/// The answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "an answer lives as long as it takes to read it")]
pub enum Settled {
    /// It went to its queue; or, if it has to reserve first, its budget is next.
    Released,
    /// Nothing was reserved. The job waits as before.
    NotReserved(Reserved),
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
