//! Keys that are reserved, and creates that are made, under a tenant's admission lock.

use interlock_backend::StoreError;
use interlock_backend::reservations::{ReserveIdempotencyKey, Reserved};
use interlock_backend::verbs::Admit;
use interlock_model::lock::LockName;
use interlock_model::{Fence, TenantId};

use super::Checker;
use super::admission::ByKey;
use crate::Invariant;

impl Checker {
    pub(crate) fn key_reserved(
        &mut self,
        asked: &ReserveIdempotencyKey,
        answer: &Result<Reserved, StoreError>,
    ) {
        let ReserveIdempotencyKey { tenant, workflow, intent, fence, .. } = asked;
        let by_key = self.key_says(tenant, workflow, intent);
        let is_true = match answer {
            Ok(Reserved::Granted) => {
                self.counts.keys_reserved += 1;
                self.judge_hold("reservation", tenant, *fence);
                by_key == ByKey::Fresh
            }
            Ok(Reserved::Replayed { run, .. }) => by_key == ByKey::Replay(*run),
            Ok(Reserved::KeyReused { run, .. }) => by_key == ByKey::Mismatch(*run),
            Err(_) => return self.judge_refusal("reservation", tenant, *fence, answer.as_ref().err()),
        };
        self.require(is_true, Invariant::OneRunPerKey, || {
            format!("key {} of tenant {tenant} was answered with {answer:?}", intent.key)
        });
    }

    /// A start that presented a fence of the admission lock created a run, or did not.
    pub(super) fn created_under_lock(&mut self, asked: &Admit, error: Option<&StoreError>) {
        let Some(fence) = asked.admission_fence else { return };
        match error {
            None => self.judge_hold("create", &asked.request.tenant, fence),
            Some(_) => self.judge_refusal("create", &asked.request.tenant, fence, error),
        }
    }

    fn judge_hold(&mut self, what: &str, tenant: &TenantId, fence: Fence) {
        let is_held = self.is_held_under(&LockName::Admission(tenant.clone()), fence);
        self.require(is_held, Invariant::NoStaleWrite, || {
            format!("a {what} of tenant {tenant} under the lost admission lock {fence} was accepted")
        });
    }

    fn judge_refusal(&mut self, what: &str, tenant: &TenantId, fence: Fence, error: Option<&StoreError>) {
        if !matches!(error, Some(StoreError::Fenced { .. })) {
            return;
        }
        self.counts.stale_admissions_refused += 1;
        let is_held = self.is_held_under(&LockName::Admission(tenant.clone()), fence);
        self.require(!is_held, Invariant::HolderIsLeftAlone, || {
            format!("a {what} of tenant {tenant} by the holder {fence} of its admission lock was refused")
        });
    }
}
