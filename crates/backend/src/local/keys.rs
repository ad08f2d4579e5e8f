//! API keys.

use interlock_model::{ApiKeyId, Timestamp};

use super::tables::{Changes, Decision, Pick, Table, View, parse};
use crate::StoreError;
use crate::keys::{ApiKey, KEYS_MAX};

pub(super) fn create(view: &dyn View, now: Timestamp, key: ApiKey) -> Result<Decision<ApiKey>, StoreError> {
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

pub(super) fn revoke(view: &dyn View, id: &ApiKeyId) -> Result<Decision<()>, StoreError> {
    if view.get(Table::ApiKeys, id.as_str())?.is_none() {
        return Err(StoreError::not_found("key", id));
    }
    let mut changes = Changes::default();
    changes.delete(Table::ApiKeys, id.as_str());
    Ok(Decision { answer: (), changes })
}

pub(super) fn all(view: &dyn View) -> Result<Vec<ApiKey>, StoreError> {
    let rows = view.scan(Table::ApiKeys, "", "~", Pick::First(KEYS_MAX))?;
    rows.iter().map(|row| parse(Table::ApiKeys, &row.key, &row.value)).collect()
}
