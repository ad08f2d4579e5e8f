//! Results under the lease of their run.

use rand::RngExt as _;

use super::sampled;
use crate::deliveries::DeliveryOutcome;
use crate::verbs::{AcquireDeferredResults, DeferResult, DeliverResult};

sampled!(
    DeliverResult,
    4,
    |walk| {
        let (tenant, job, fence) = walk.job()?;
        let (outcome, holder) = (walk.outcome(), walk.instance());
        let (edge, lease) = (walk.edge(), walk.millis(1..900));
        Some(DeliverResult { tenant, job, fence, edge, outcome, holder, lease })
    },
    |_, answer, known| {
        if let DeliveryOutcome::Recorded(acquired) = answer {
            known.acquired.push((**acquired).clone());
        }
    }
);

sampled!(DeferResult, 8, |walk| {
    let (tenant, job, fence) = walk.job()?;
    let (edge, outcome) = (walk.edge(), walk.outcome());
    let deliveries = walk.random.random_range(1..4);
    let (waited, delay, lease) = (walk.millis(0..900), walk.millis(0..900), walk.millis(0..900));
    Some(DeferResult { tenant, job, fence, edge, outcome, deliveries, waited, delay, lease })
});

sampled!(
    AcquireDeferredResults,
    3,
    |walk| Some(AcquireDeferredResults { tenant: walk.tenant(), limit: walk.limit() }),
    |asked, answer, known| {
        known.jobs.extend(answer.iter().map(|it| (asked.tenant.clone(), it.job.clone(), it.fence)));
    }
);
