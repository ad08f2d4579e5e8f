//! API keys.

use async_trait::async_trait;
use interlock_model::{ApiKeyId, Timestamp};

use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, parse};
use crate::StoreError;
use crate::keys::{ApiKey, KEYS_MAX, KeyStore};

fn create(view: &dyn View, now: Timestamp, key: ApiKey) -> Result<Decision<ApiKey>, StoreError> {
    if view.get(Table::ApiKeys, key.id.as_str())?.is_some() {
        return Err(StoreError::Conflict(format!("there is a key {} already", key.id)));
    }
    if all(view)?.len() >= KEYS_MAX {
        return Err(StoreError::Conflict(format!("there are {KEYS_MAX} keys; revoke one first")));
    }
    let key = ApiKey { created_at: now, ..key };
    let mut changes = Changes::default();
    changes.put(Table::ApiKeys, key.id.as_str(), &key);
    Ok(Decision { answer: key, changes })
}

fn revoke(view: &dyn View, id: &ApiKeyId) -> Result<Decision<()>, StoreError> {
    if view.get(Table::ApiKeys, id.as_str())?.is_none() {
        return Err(StoreError::not_found("key", id));
    }
    let mut changes = Changes::default();
    changes.delete(Table::ApiKeys, id.as_str());
    Ok(Decision { answer: (), changes })
}

fn all(view: &dyn View) -> Result<Vec<ApiKey>, StoreError> {
    let rows = view.scan(Table::ApiKeys, "", "~", Pick::First(KEYS_MAX))?;
    rows.iter().map(|row| parse(Table::ApiKeys, &row.key, &row.value)).collect()
}

#[async_trait]
impl<E: Executor> KeyStore for LocalStore<E> {
    async fn create_key(&self, key: ApiKey) -> Result<ApiKey, StoreError> {
        self.write("create a key", move |view, now| create(view, now, key)).await
    }

    async fn revoke_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        let id = id.clone();
        self.write("revoke a key", move |view, _| revoke(view, &id)).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.read("list keys", move |view, _| all(view)).await
    }
}
