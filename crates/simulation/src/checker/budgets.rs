//! Budgets, as the calls and answers say that they must be.

use interlock_backend::StoreError;
use interlock_backend::budgets::{ReserveBudget, Reserved};

use super::Checker;

impl Checker {
    pub(crate) fn reserved(&mut self, asked: &ReserveBudget, answer: &Result<Reserved, StoreError>) {
        if let Ok(Reserved::Granted { permit, is_replay: false, .. }) = answer {
            self.fence_given(&asked.tenant, permit.fence);
        }
    }
}
