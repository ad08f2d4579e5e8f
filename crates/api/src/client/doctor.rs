//! Calls about what must not be.

use std::time::Duration;

use super::paths::path;
use super::{Client, Result};
use crate::doctor::{DoctorQuery, DoctorView, RepairRequest, RepairView};

/// The server looks for at most so long, and says what it has not seen by then.
const LOOK_MAX: Duration = Duration::from_mins(1);

impl Client {
    pub async fn doctor(&self, query: &DoctorQuery) -> Result<DoctorView> {
        self.get(&path(&[&"doctor"])).query(query).waiting(LOOK_MAX).read().await
    }

    /// Asking again is safe: what was mended is not there any more.
    pub async fn repair(&self, query: &DoctorQuery, request: &RepairRequest) -> Result<RepairView> {
        let call = self.post(&path(&[&"doctor", &"repair"])).query(query).body(request);
        // It looks before and after.
        call.waiting(LOOK_MAX * 3).read().await
    }
}
