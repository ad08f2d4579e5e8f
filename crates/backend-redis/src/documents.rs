//! Documents about the installation, and figures of roll-outs. They belong to no tenant.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::documents::{
    DOCUMENT_BYTES_MAX, Document, DocumentName, DocumentStore, FIGURES_BYTES_MAX, MEMBERS_MAX, check_size,
    too_many,
};
use interlock_model::{InstanceId, RolloutId};

use crate::script::Call;
use crate::scripts;
use crate::store::RedisStore;

fn key(name: DocumentName) -> String {
    format!("sys:{}", name.as_str())
}

#[async_trait]
impl DocumentStore for RedisStore {
    async fn document(&self, name: DocumentName) -> Result<Option<Document>, StoreError> {
        // Looked at twice a second by everybody, changed once a week.
        let call = Call::global(&scripts::DOCUMENT, "read a document", false).polling();
        self.ask(call.with(key(name)), |mut fields| {
            let version = fields.optional("version")?;
            version.map(|version| Ok(Document { version, text: fields.text()? })).transpose()
        })
        .await
    }

    async fn save_document(&self, name: DocumentName, expected: u64, text: &str) -> Result<bool, StoreError> {
        check_size(name.as_str(), text, DOCUMENT_BYTES_MAX)?;
        let call = Call::global(&scripts::SAVE_DOCUMENT, "save a document", true);
        let call = call.with(key(name)).with(expected).with(text);
        self.ask(call, |mut fields| Ok(fields.text()? == "1")).await
    }

    async fn save_figures(
        &self,
        rollout: &RolloutId,
        instance: &InstanceId,
        figures: &str,
    ) -> Result<(), StoreError> {
        check_size("what was counted of a roll-out", figures, FIGURES_BYTES_MAX)?;
        let call = Call::global(&scripts::SAVE_FIGURES, "save what was counted of a roll-out", true);
        let call = call.with(rollout.as_str()).with(instance.as_str()).with(figures).with(MEMBERS_MAX);
        let is_kept = self.ask(call, |mut fields| Ok(fields.text()? == "1")).await?;
        if is_kept { Ok(()) } else { Err(too_many(rollout)) }
    }

    async fn figures(&self, rollout: &RolloutId) -> Result<Vec<(InstanceId, String)>, StoreError> {
        let call = Call::global(&scripts::FIGURES, "read what was counted of a roll-out", false).polling();
        let mut found = self
            .ask(call.with(rollout.as_str()), |mut fields| {
                fields.list()?.each(|fields| Ok((fields.parsed("instance")?, fields.text()?)))
            })
            .await?;
        found.sort();
        Ok(found)
    }

    async fn forget_figures(&self, rollout: &RolloutId) -> Result<(), StoreError> {
        let call = Call::global(&scripts::FORGET_FIGURES, "forget what was counted of a roll-out", true);
        self.ask(call.with(rollout.as_str()), |_| Ok(())).await
    }
}
