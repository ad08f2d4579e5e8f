//! Dead letters: kept until somebody has looked at them.

use async_trait::async_trait;
use interlock_backend::dead_letters::DeadLetterStore;
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};

use crate::runs::found;
use crate::script::Call;
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl DeadLetterStore for RedisStore {
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter) -> Result<(), StoreError> {
        let call = Call::write(&scripts::BURY, "bury a job", tenant);
        self.ask(call.with(letter.job.to_string()).with(encode::json(letter)), |_| Ok(())).await
    }

    async fn dead_letters(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        let call = Call::read(&scripts::DEAD_LETTERS, "list dead letters", tenant);
        let call = call.with(page.after.as_deref()).with(page.limit);
        self.ask(call, |fields| fields.page(|item| item.json("dead letter"))).await
    }

    async fn dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        let call = Call::read(&scripts::DEAD_LETTER, "read a dead letter", tenant).of("dead letter", job);
        found(self.ask(call.with(job.to_string()), |mut fields| fields.json("dead letter")).await)
    }

    async fn delete_dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<(), StoreError> {
        let call = Call::write(&scripts::DELETE_DEAD_LETTER, "delete a dead letter", tenant);
        self.ask(call.of("dead letter", job).with(job.to_string()), |_| Ok(())).await
    }
}
