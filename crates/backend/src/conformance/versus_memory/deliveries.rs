//! Results under the lock of their run.

use std::time::Duration;

use interlock_model::job::JobOutcome;
use interlock_model::{Fence, JobId, TenantId};
use rand::RngExt;
use serde_json::json;

use super::super::scene::holder;
use super::Walk;
use crate::deliveries::{PutOff, ReportAndTake, ReportTaken};

impl Walk {
    pub(super) async fn deliver(&mut self, (tenant, job, fence): (TenantId, JobId, Fence)) {
        let lease = Duration::from_millis(self.random.random_range(1..900));
        let outcome = self.outcome();
        let report = ReportAndTake { tenant, job, fence, outcome, holder: holder(), lease };
        if let Ok(ReportTaken::Recorded(taken)) = same!(self, report_and_take(&report)) {
            self.taken.push(*taken);
        }
    }

    pub(super) async fn put_off(&mut self, (tenant, job, fence): (TenantId, JobId, Fence)) {
        let mut millis = |longest| Duration::from_millis(self.random.random_range(0..longest));
        let (waited, delay, lease) = (millis(900), millis(900), millis(900));
        let deliveries = self.random.random_range(1..4);
        let outcome = self.outcome();
        let kept = PutOff { tenant, job, fence, outcome, deliveries, waited, delay, lease };
        let _ = same!(self, put_off(&kept));
    }

    fn outcome(&mut self) -> JobOutcome {
        if self.random.random_bool(0.7) {
            JobOutcome::Completed { output: json!([1, 2.5, {"deep": []}]) }
        } else {
            JobOutcome::Failed { error: "no".to_owned(), retryable: true }
        }
    }
}
