//! Whether the server's TLS certificate is valid.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::clock::SystemClock;
use interlock_backend::inspection::{Probe, Probed};
use interlock_gateway::TlsFiles;
use interlock_model::Clock as _;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};

pub(super) struct CertificateProbe(pub(super) TlsFiles);

#[async_trait]
impl Probe for CertificateProbe {
    async fn probe(&self) -> Vec<Probed> {
        let invariant = Invariant::CertificateExpired;
        let expires_at = match self.0.expires_at() {
            Ok(expires_at) => expires_at,
            Err(error) => return vec![Probed::Unseen { invariant, reason: error.to_string() }],
        };
        let Some(end) = expires_at.filter(|at| *at <= SystemClock.now()) else {
            return vec![Probed::Sound(invariant)];
        };
        let subject = self.0.certificate.display().to_string();
        let detail = format!("the certificate expired at {end}: clients refuse the server");
        vec![Probed::Found(Finding { invariant, tenant: None, subject, detail, is_repairable: false })]
    }

    async fn repair(&self, _: Invariant, _: &str) -> Result<RepairOutcome, StoreError> {
        Ok(RepairOutcome::NothingToDo)
    }
}
