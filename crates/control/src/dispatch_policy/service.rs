//! Asking the service: bounded in number and time, and not at all while it is away.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use interlock_model::Timestamp;
use interlock_model::dispatch_policy::{Answer, Permission, Question};
use tracing::{info, warn};

use super::Service;
use crate::service::Control;

/// The service has not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) since: Timestamp,
    /// In words.
    pub(super) trouble: String,
}

impl Control {
    pub(super) async fn ask_service(&self, service: &Service, question: &Question) -> Result<Answer, Away> {
        let state = &self.dispatch_policy;
        // First the place, then the breaker: those who stood in line while the service went away ask no more.
        let _place = state.questions.acquire().await.expect("nobody closes it");
        if state.with_breaker(|breaker| breaker.ask(self.clock.now())) == Permission::Refused {
            return Err(self.away());
        }
        let answered = tokio::time::timeout(service.timeout, service.line.ask(question)).await;
        match answered.unwrap_or_else(|_| Err(format!("no answer in {} ms", service.timeout.as_millis()))) {
            Ok(answer) => {
                if state.with_breaker(interlock_model::dispatch_policy::Breaker::succeeded) {
                    info!(service = %service.place, "the policy service answers again");
                    state.is_back.store(true, Ordering::Relaxed);
                }
                Ok(answer)
            }
            Err(trouble) => {
                warn!(service = %service.place, %trouble, "the policy service has not answered");
                *state.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
                state.with_breaker(|breaker| breaker.failed(self.clock.now()));
                Err(self.away())
            }
        }
    }

    fn away(&self) -> Away {
        let state = &self.dispatch_policy;
        let since = state.with_breaker(|breaker| breaker.away_since());
        Away {
            since: since.unwrap_or_else(|| self.clock.now()),
            trouble: state.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
