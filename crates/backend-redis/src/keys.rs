//! API keys, hashed. They belong to no tenant.

use interlock_backend::keys::{ApiKey, KEYS_MAX};
use interlock_backend::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey};
use interlock_model::Timestamp;

use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, Script, script};
use crate::store::Scripted;

impl Scripted for CreateApiKey {
    fn script() -> &'static Script {
        script!("create_api_key")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
            .with("id", &self.key.id)
            .with("document", encode::json(&self.key))
            .with("keys_max", KEYS_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<ApiKey, Unreadable> {
        Ok(ApiKey { created_at: reply.time("created_at")?, ..self.key.clone() })
    }
}

impl Scripted for RevokeApiKey {
    fn script() -> &'static Script {
        script!("revoke_api_key")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System).of("key", &self.id).with("id", &self.id)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for ListApiKeys {
    fn script() -> &'static Script {
        script!("list_api_keys")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<ApiKey>, Unreadable> {
        let mut keys = reply.each("keys", read_key)?;
        keys.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(keys)
    }
}

/// A key as `lua/create_api_key.lua` writes it: the store's time stands before it.
fn read_key(item: Reply) -> Result<ApiKey, Unreadable> {
    let unreadable = item.unreadable("key");
    let text: String = item.into_parsed("key")?;
    let read = |(created_at, document): (&str, &str)| {
        let created_at = Timestamp::from_millis(created_at.parse().ok()?);
        let key: ApiKey = serde_json::from_str(document).ok()?;
        Some(ApiKey { created_at, ..key })
    };
    text.split_once(' ').and_then(read).ok_or(unreadable)
}
