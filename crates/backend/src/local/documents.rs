//! Documents about the installation, and figures of roll-outs.

use async_trait::async_trait;
use interlock_model::{InstanceId, RolloutId};
use serde::{Deserialize, Serialize};

use super::rows;
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Row, Table, View, parse, read, scan_prefix};
use crate::StoreError;
use crate::documents::{
    DOCUMENT_BYTES_MAX, Document, DocumentName, DocumentStore, FIGURES_BYTES_MAX, MEMBERS_MAX, check_size,
    too_many,
};

/// A document as a row.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    version: u64,
    text: String,
}

fn look(view: &dyn View, name: DocumentName) -> Result<Option<Document>, StoreError> {
    let saved: Option<Saved> = read(view, Table::Documents, name.as_str())?;
    Ok(saved.map(|Saved { version, text }| Document { version, text }))
}

fn save(
    view: &dyn View,
    name: DocumentName,
    expected: u64,
    text: String,
) -> Result<Decision<bool>, StoreError> {
    check_size(name.as_str(), &text, DOCUMENT_BYTES_MAX)?;
    let before = look(view, name)?;
    let current = before.as_ref().map_or(0, |document| document.version);
    if current != expected {
        let is_ours = before.is_some_and(|document| document.text == text) && current == expected + 1;
        return Ok(Decision::unchanged(is_ours));
    }
    let mut changes = Changes::default();
    changes.put(Table::Documents, name.as_str(), &Saved { version: expected + 1, text });
    Ok(Decision { answer: true, changes })
}

fn save_figures(
    view: &dyn View,
    rollout: &RolloutId,
    instance: &InstanceId,
    figures: &str,
) -> Result<Decision<()>, StoreError> {
    check_size("what was counted of a roll-out", figures, FIGURES_BYTES_MAX)?;
    let key = rows::figures(rollout, instance);
    let is_known = view.get(Table::Figures, &key)?.is_some();
    if !is_known && members(view, rollout)?.len() >= MEMBERS_MAX {
        return Err(too_many(rollout));
    }
    let mut changes = Changes::default();
    changes.put(Table::Figures, key, &figures);
    Ok(Decision { answer: (), changes })
}

fn members(view: &dyn View, rollout: &RolloutId) -> Result<Vec<Row>, StoreError> {
    scan_prefix(view, Table::Figures, &rows::figures_of(rollout), Pick::First(MEMBERS_MAX))
}

fn all(view: &dyn View, rollout: &RolloutId) -> Result<Vec<(InstanceId, String)>, StoreError> {
    let mut found = Vec::new();
    for row in members(view, rollout)? {
        let Ok(instance) = rows::last_part(&row.key).parse() else { continue };
        found.push((instance, parse(Table::Figures, &row.key, &row.value)?));
    }
    Ok(found)
}

fn forget(view: &dyn View, rollout: &RolloutId) -> Result<Decision<()>, StoreError> {
    let mut changes = Changes::default();
    for row in members(view, rollout)? {
        changes.delete(Table::Figures, row.key);
    }
    Ok(Decision { answer: (), changes })
}

#[async_trait]
impl<E: Executor> DocumentStore for LocalStore<E> {
    async fn document(&self, name: DocumentName) -> Result<Option<Document>, StoreError> {
        self.read("read a document", move |view, _| look(view, name)).await
    }

    async fn save_document(&self, name: DocumentName, expected: u64, text: &str) -> Result<bool, StoreError> {
        let text = text.to_owned();
        self.write("save a document", move |view, _| save(view, name, expected, text)).await
    }

    async fn save_figures(
        &self,
        rollout: &RolloutId,
        instance: &InstanceId,
        figures: &str,
    ) -> Result<(), StoreError> {
        let (rollout, instance, figures) = (rollout.clone(), instance.clone(), figures.to_owned());
        let decide = move |view: &dyn View, _| save_figures(view, &rollout, &instance, &figures);
        self.write("save what was counted of a roll-out", decide).await
    }

    async fn figures(&self, rollout: &RolloutId) -> Result<Vec<(InstanceId, String)>, StoreError> {
        let rollout = rollout.clone();
        self.read("read what was counted of a roll-out", move |view, _| all(view, &rollout)).await
    }

    async fn forget_figures(&self, rollout: &RolloutId) -> Result<(), StoreError> {
        let rollout = rollout.clone();
        self.write("forget what was counted of a roll-out", move |view, _| forget(view, &rollout)).await
    }
}
