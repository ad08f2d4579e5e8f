//! Results under the lease of their run: refused only while an instance holds it, and never lost once accepted.

use interlock_backend::StoreError;
use interlock_backend::deliveries::{
    DeferOutcome, DeferResult, DeferredResult, DeliverResult, DeliveryOutcome,
};
use interlock_backend::jobs::Report;
use interlock_model::job::EndCause;
use interlock_model::{Fence, JobId};

use super::Checker;
use crate::Invariant;

/// A result that waits for another delivery.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub fence: Fence,
    pub cause: EndCause,
    deliveries: u32,
}

impl Checker {
    pub(crate) fn delivered(&mut self, report: &DeliverResult, answer: &Result<DeliveryOutcome, StoreError>) {
        let (job, fence, cause) = (&report.job, report.fence, report.outcome.cause());
        match answer {
            Ok(DeliveryOutcome::Busy) => {
                self.counts.results_busy += 1;
                self.judge_write(("delivery", job, fence), true);
                let is_held = self.is_held(job.run);
                self.require(is_held, Invariant::AnswersAreTrue, || {
                    format!("run {} is reported as busy, and no instance holds it", job.run)
                });
            }
            Ok(DeliveryOutcome::AlreadyRecorded) => {
                self.reported((job, fence), cause, &Ok(Report::AlreadyRecorded));
            }
            Ok(DeliveryOutcome::Posted) => {
                self.reported((job, fence), cause, &Ok(Report::Recorded));
                let is_held = self.is_held(job.run);
                self.require(!is_held, Invariant::AnswersAreTrue, || {
                    format!("run {} is reported as a suspect, and an instance holds it", job.run)
                });
            }
            Ok(DeliveryOutcome::Recorded(taken)) => {
                self.reported((job, fence), cause, &Ok(Report::Recorded));
                self.acquired([&**taken], report.lease);
            }
            Err(_) if self.contradicts(job, cause) => self.counts.contradictions_refused += 1,
            Err(error) => self.reported((job, fence), cause, &Err(error.clone())),
        }
    }

    pub(crate) fn deferred(&mut self, asked: &DeferResult, answer: &Result<DeferOutcome, StoreError>) {
        let (job, fence, cause) = (&asked.job, asked.fence, asked.outcome.cause());
        match answer {
            Ok(DeferOutcome::Deferred) => {
                self.counts.results_put_off += 1;
                self.judge_write(("putting off", job, fence), true);
                let known = self.waiting.get(job).copied();
                self.require(known.is_none_or(|known| known.cause == cause), Invariant::ReportedOnce, || {
                    format!("two results of {job} are kept")
                });
                if known.is_none_or(|known| known.deliveries < asked.deliveries) {
                    let deliveries = asked.deliveries;
                    self.waiting.insert(job.clone(), Waiting { fence, cause, deliveries });
                    self.extend(job, asked.delay + asked.lease);
                }
            }
            Ok(DeferOutcome::AlreadyRecorded) => {
                self.reported((job, fence), cause, &Ok(Report::AlreadyRecorded));
            }
            Err(_) if self.contradicts(job, cause) => self.counts.contradictions_refused += 1,
            Err(error) => self.reported((job, fence), cause, &Err(error.clone())),
        }
    }

    /// Whether another result of the job waits.
    fn contradicts(&self, job: &JobId, cause: EndCause) -> bool {
        self.waiting.get(job).is_some_and(|known| known.cause != cause)
    }

    pub(crate) fn results_due(&mut self, due: &[DeferredResult]) {
        for result in due {
            self.counts.results_delivered_again += 1;
            let known = self.waiting.get(&result.job).copied();
            let is_known = known.is_some_and(|known| {
                (known.fence, known.cause, known.deliveries)
                    == (result.fence, result.outcome.cause(), result.deliveries)
            });
            self.require(is_known, Invariant::AnswersAreTrue, || {
                format!("a result of {} is due that no call has deferred like this", result.job)
            });
        }
    }
}
