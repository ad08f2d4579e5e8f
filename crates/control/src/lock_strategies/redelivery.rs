//! Delivers results again that found their run busy.

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::StoreError;
use interlock_backend::deliveries::DeferredResult;
use interlock_backend::verbs::AcquireDeferredResults;
use interlock_model::TenantId;
use interlock_model::contention::RunStrategy;
use tracing::{debug, warn};

use super::results::ResultsUnderLock;
use crate::reconcile::{Redelivered, Redelivery};
use crate::results::{DeliverUnderLock as _, Delivered, Delivery};

/// Results of one tenant that one step acquires, and how many of them are delivered at once. An acquired result that is not
/// delivered is due again after a while, so a step acquires no more than it delivers well before that.
const RESULTS_MAX: usize = 128;
const AT_ONCE: usize = 32;

#[async_trait]
impl Redelivery for ResultsUnderLock {
    async fn deliver_due(&self, tenant: &TenantId) -> Result<Redelivered, StoreError> {
        let acquire = AcquireDeferredResults { tenant: tenant.clone(), limit: RESULTS_MAX };
        let due = self.process.call(acquire).await?;
        let results = due.len();
        let deliveries = stream::iter(due);
        deliveries.for_each_concurrent(AT_ONCE, |result| self.deliver_again(tenant, result)).await;
        Ok(Redelivered { results, has_more: results == RESULTS_MAX })
    }
}

impl ResultsUnderLock {
    async fn deliver_again(&self, tenant: &TenantId, result: DeferredResult) {
        let DeferredResult { job, fence, outcome, deliveries, waited } = result;
        let attempt = deliveries.saturating_add(1);
        let delivery = Delivery { tenant: tenant.clone(), job, fence, edge: None, outcome, attempt, waited };
        // The process that deferred it may have had another strategy.
        let delivered = match self.process.settings.run_strategy {
            RunStrategy::Inbox => self.inbox.deliver(&delivery).await,
            RunStrategy::Lock => self.deliver(&delivery).await,
        };
        let delivered = match delivered {
            Ok(Delivered::Busy) => self.defer(&delivery).await,
            other => other.map(|_| ()),
        };
        let job = &delivery.job;
        match delivered {
            Ok(()) => {}
            Err(error @ (StoreError::Fenced { .. } | StoreError::NotFound { .. })) => {
                debug!(%tenant, run = %job.run, %job, %error, "deferred result is stale");
            }
            Err(error) => {
                warn!(%tenant, run = %job.run, %job, %error, "deferred result not delivered; retrying");
            }
        }
    }
}
