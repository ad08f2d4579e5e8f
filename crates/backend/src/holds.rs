//! Held jobs: open, in no queue, and nobody's to claim until it is settled what becomes of them.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::approval::Approval;
use interlock_model::dispatch_policy::{Hold, HoldReason, Throttle};
use interlock_model::job::NewJob;
use interlock_model::{JobId, Tag, TenantId, Timestamp};

use crate::StoreError;

/// Somebody who looks at what is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeHeld {
    pub tenant: TenantId,
    /// Jobs that are due within so long from now count as due.
    pub ahead: Duration,
    /// How long a job is left to whoever took it.
    pub in_hand: Duration,
    pub limit: usize,
}

/// A held job whose time to be looked at has come.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldDue {
    pub job: NewJob,
    pub hold: Hold,
    /// The store's clock.
    pub now: Timestamp,
}

/// What is to become of a held job.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// It goes to its queue.
    Release {
        /// What the timeline tells of it, if anything.
        told: Option<String>,
    },
    /// It goes to its queue if its rule has let fewer than so many of the tenant's jobs go in this period. Else it waits for
    /// the next one.
    ReleaseWithin { rule: Tag, throttle: Throttle, detail: String, told: Option<String> },
    /// It ends, and its run is told why.
    Deny { reason: String },
    /// It is looked at again later. The timeline tells it, if the reason is new.
    Wait { reason: HoldReason, detail: String, wait: Duration },
    /// A person is asked. Approved, it goes to its queue; rejected, it ends.
    Ask { approval: Approval, detail: String },
}

/// What became of a held job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Settled {
    Released,
    Denied,
    /// It is looked at again at this time.
    Waiting(Timestamp),
    Asked,
    /// Somebody else has settled it, or a person is asked, or the job has ended. Nothing was changed.
    NotHeld,
}

#[async_trait]
pub trait HoldStore: Send + Sync {
    /// The tenant's held jobs that are due, first those that were due first. They are due again when their time in hand is
    /// over, unless something becomes of them.
    async fn take_held(&self, take: &TakeHeld) -> Result<Vec<HeldDue>, StoreError>;

    /// Does with a held job what was decided, in one step. The first decision that ends the hold counts.
    async fn settle_held(
        &self,
        tenant: &TenantId,
        job: &JobId,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError>;
}
