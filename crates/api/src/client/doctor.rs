//! Calls about invariants.

use std::time::Duration;

use super::paths::path;
use super::{Client, Result};
use crate::doctor::{DoctorQuery, DoctorView, RepairRequest, RepairView};

/// How long the server checks; it reports what it could not check by then.
const CHECK_MAX: Duration = Duration::from_mins(1);

impl Client {
    pub async fn doctor(&self, query: &DoctorQuery) -> Result<DoctorView> {
        self.get(&path(&[&"doctor"])).query(query).waiting(CHECK_MAX).read().await
    }

    /// Safe to repeat: a repaired finding does not exist any more.
    pub async fn repair(&self, query: &DoctorQuery, request: &RepairRequest) -> Result<RepairView> {
        let call = self.post(&path(&[&"doctor", &"repair"])).query(query).body(request);
        // It checks before and after.
        call.waiting(CHECK_MAX * 3).read().await
    }
}
