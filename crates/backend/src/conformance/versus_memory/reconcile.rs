//! What the slow loops do.

use super::{Sampled, Walk, sampled};
use crate::reconcile::Retired;
use crate::verbs::{ListExpiredLeases, RepairSlots, RequeueJobs, Retire};

sampled!(ListExpiredLeases, 2, |walk| {
    Some(ListExpiredLeases { tenant: walk.tenant(), limit: walk.limit() })
});

sampled!(RequeueJobs, 4, |walk| Some(RequeueJobs { tenant: walk.tenant(), limit: walk.limit() * 10 }));

sampled!(RepairSlots, 4, |walk| {
    let after = walk.run().map(|(_, run)| run).filter(|_| walk.flip(0.3));
    Some(RepairSlots { tenant: walk.tenant(), after, limit: walk.limit() * 10 })
});

impl Sampled for Retire {
    const WEIGHT: u32 = 2;

    fn sample(walk: &mut Walk) -> Option<Self> {
        let unused_for = walk.millis(0..2_000);
        Some(Self { tenant: walk.tenant(), unused_for, after: None, limit: 1_000 })
    }

    /// A backend may end idempotency keys by itself: then there is nothing to remove.
    fn comparable(answer: Retired) -> Retired {
        Retired { keys: 0, next: None, ..answer }
    }
}
