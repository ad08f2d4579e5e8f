//! Asks the policy service: a bounded number of questions, each with a timeout, and none while the breaker is open.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use interlock_model::Timestamp;
use interlock_model::dispatch_policy::{Answer, Breaker, Permission, Question};
use tracing::{info, warn};

use super::Policy;
use crate::dispatch_policy::ServiceConfig;

/// The service did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) since: Timestamp,
    pub(super) trouble: String,
}

impl Policy {
    pub(super) async fn ask_service(
        &self,
        service: &ServiceConfig,
        question: &Question,
    ) -> Result<Answer, Away> {
        // First the permit, then the breaker: who waited for a permit while the service failed does not ask.
        let _permit = self.questions.acquire().await.expect("the semaphore is never closed");
        if self.with_breaker(|breaker| breaker.ask(self.process.now())) == Permission::Refused {
            return Err(self.away());
        }
        let answered = tokio::time::timeout(service.timeout, service.client.ask(question)).await;
        match answered.unwrap_or_else(|_| Err(format!("no answer in {} ms", service.timeout.as_millis()))) {
            Ok(answer) => {
                if self.with_breaker(Breaker::succeeded) {
                    info!(service = %service.place, "policy service is back");
                    self.is_back.store(true, Ordering::Relaxed);
                }
                Ok(answer)
            }
            Err(trouble) => {
                warn!(service = %service.place, %trouble, "policy service did not answer");
                *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
                self.with_breaker(|breaker| breaker.failed(self.process.now()));
                Err(self.away())
            }
        }
    }

    fn away(&self) -> Away {
        let since = self.with_breaker(|breaker| breaker.away_since());
        Away {
            since: since.unwrap_or_else(|| self.process.now()),
            trouble: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
