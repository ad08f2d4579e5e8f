//! Dead letters: kept until somebody has looked at them.

use async_trait::async_trait;
use interlock_backend::dead_letters::{DROPPED_AT_ONCE_MAX, DeadLetterStore, LetterCount, LetterRetry};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};

use crate::runs::found;
use crate::script::Call;
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl DeadLetterStore for RedisStore {
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter, letters_max: u32) -> Result<(), StoreError> {
        let call = Call::write(&scripts::BURY, "bury a job", tenant);
        self.ask(with_letters(call, std::slice::from_ref(letter), letters_max), |_| Ok(())).await
    }

    async fn retry_dead_letter(
        &self,
        tenant: &TenantId,
        job: &JobId,
        by: &str,
    ) -> Result<LetterRetry, StoreError> {
        let call = Call::write(&scripts::RETRY_DEAD_LETTER, "retry a dead letter", tenant);
        let call = call.of("dead letter", job).with(job.to_string()).with(job.run.to_string());
        self.ask(call.with(encode::retry_without_letter(by)), |mut fields| match fields.text()?.as_str() {
            "posted" => Ok(LetterRetry::Posted),
            "ended" => Ok(LetterRetry::RunEnded),
            "gone" => Ok(LetterRetry::RunGone),
            _ => Err(fields.unreadable("answer to a retry")),
        })
        .await
    }

    async fn count_dead_letters(&self, tenant: &TenantId) -> Result<LetterCount, StoreError> {
        let call = Call::read(&scripts::COUNT_DEAD_LETTERS, "count dead letters", tenant);
        self.ask(call, |mut fields| {
            Ok(LetterCount { kept: fields.parsed("count")?, dropped: fields.parsed("count")? })
        })
        .await
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

/// As `bury` of `lua/shared/letters.lua` reads them.
pub(crate) fn with_letters(call: Call, letters: &[DeadLetter], letters_max: u32) -> Call {
    call.with(letters_max).with(DROPPED_AT_ONCE_MAX).with_list(letters.iter(), |call, letter| {
        call.push(letter.job.to_string());
        call.push(encode::json(letter));
    })
}
