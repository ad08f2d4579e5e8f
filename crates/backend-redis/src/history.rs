//! Timelines.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::history::HistoryStore;
use interlock_model::history::Recorded;
use interlock_model::{RunId, TenantId};

use crate::script::Call;
use crate::scripts;
use crate::store::RedisStore;

/// More than any timeline has, and less than a script would round.
const SEQUENCE_MAX: u64 = 9_999_999_999;

#[async_trait]
impl HistoryStore for RedisStore {
    async fn timeline(
        &self,
        tenant: &TenantId,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let after = after.min(SEQUENCE_MAX);
        let call = Call::read(&scripts::TIMELINE, "read a timeline", tenant).of("run", run);
        self.ask(call.with(run.to_string()).with(after).with(limit), |mut fields| {
            let events = fields.list()?.each(|event| event.json("event"))?;
            let numbered = (after + 1..).zip(events);
            Ok(numbered.map(|(sequence, event)| Recorded { sequence, event }).collect())
        })
        .await
    }
}
