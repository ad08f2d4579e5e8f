//! API keys, hashed. They belong to no tenant.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::keys::{ApiKey, KEYS_MAX, KeyStore};
use interlock_model::{ApiKeyId, Timestamp};

use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl KeyStore for RedisStore {
    async fn create_key(&self, key: ApiKey) -> Result<ApiKey, StoreError> {
        let call = Call::global(&scripts::CREATE_KEY, "create a key", true);
        let call = call.with(key.id.as_str()).with(encode::json(&key)).with(KEYS_MAX);
        let created_at = self.ask(call, |mut fields| fields.time()).await?;
        Ok(ApiKey { created_at, ..key })
    }

    async fn revoke_key(&self, id: &ApiKeyId) -> Result<(), StoreError> {
        let call = Call::global(&scripts::REVOKE_KEY, "revoke a key", true).of("key", id);
        self.ask(call.with(id.as_str()), |_| Ok(())).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let call = Call::global(&scripts::API_KEYS, "list keys", false);
        let mut keys = self.ask(call, |mut fields| fields.list()?.each(read_key)).await?;
        keys.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(keys)
    }
}

/// A key as `lua/create_key.lua` writes it: the store's time stands before it.
fn read_key(fields: &mut Fields) -> Result<ApiKey, Unreadable> {
    let text = fields.text()?;
    let (created_at, document) = text.split_once(' ').ok_or_else(|| fields.unreadable("key"))?;
    let created_at = created_at.parse().map_err(|_| fields.unreadable("time"))?;
    let key: ApiKey = serde_json::from_str(document).map_err(|_| fields.unreadable("key"))?;
    Ok(ApiKey { created_at: Timestamp::from_millis(created_at), ..key })
}
