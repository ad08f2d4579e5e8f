//! Tunings, changed at run time.

use interlock_backend::StoreError;
use interlock_backend::documents::DocumentName;
use interlock_backend::verbs::ReadDocument;
use interlock_model::contention::{Book, Scope, Signed, Tuning};
use interlock_model::retry::RetryPolicy;

use super::{Rollouts, TuningError, read_book};
use crate::contention::InForceView;

/// A new tuning. Fields that are absent keep their values.
#[derive(Debug, Clone, PartialEq)]
pub struct TuningChange {
    pub scope: Scope,
    pub policy: RetryPolicy,
    pub max_wait_ms: Option<u64>,
    pub lock_ttl_ms: Option<u64>,
    /// The version that it replaces, if that matters.
    pub expected: Option<u64>,
}

impl Rollouts {
    /// What the store says now, whether it has reached this process or not.
    pub async fn book(&self) -> Result<Book, StoreError> {
        read_book(self.process.call(ReadDocument { name: DocumentName::Contention }).await?.as_ref())
    }

    /// What holds in a process that was configured like this one.
    pub fn tuning_of(&self, book: &Book, scope: Scope) -> InForceView {
        self.contention.configured.view(book, scope)
    }

    /// Puts a tuning in force: here with the answer, elsewhere within a second.
    pub async fn set_tuning(
        &self,
        change: TuningChange,
        by: &str,
        reason: Option<String>,
    ) -> Result<InForceView, TuningError> {
        let TuningChange { scope, policy, max_wait_ms, lock_ttl_ms, expected } = change;
        let signed = self.signed(by, reason);
        let configured = self.contention.configured.of(scope);
        self.change_book(|book| {
            let before = book.versions(scope).tuning().unwrap_or(configured);
            let tuning = Tuning {
                policy,
                max_wait_ms: max_wait_ms.unwrap_or(before.max_wait_ms),
                lock_ttl_ms: lock_ttl_ms.unwrap_or(before.lock_ttl_ms),
            };
            let version = book.set(scope, expected, tuning, signed.clone())?;
            Ok(InForceView { scope, tuning, version: Some(version) })
        })
        .await
    }

    /// Puts what was in force before back in force.
    pub async fn roll_back_tuning(
        &self,
        scope: Scope,
        expected: Option<u64>,
        by: &str,
        reason: Option<String>,
    ) -> Result<InForceView, TuningError> {
        let signed = self.signed(by, reason);
        let configured = self.contention.configured.of(scope);
        self.change_book(|book| {
            let version = book.roll_back(scope, expected, signed.clone())?;
            let tuning = version.tuning.unwrap_or(configured);
            Ok(InForceView { scope, tuning, version: Some(version) })
        })
        .await
    }

    pub(super) fn signed(&self, by: &str, reason: Option<String>) -> Signed {
        Signed { by: by.to_owned(), at: self.process.now(), reason }
    }
}
