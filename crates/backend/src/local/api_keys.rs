//! API keys.

use interlock_model::Timestamp;

use super::store::Decide;
use super::store::look;
use super::tables::{Changes, Decided, Decision, Pick, Table, View, parse};
use crate::StoreError;
use crate::keys::{ApiKey, KEYS_MAX, KEYS_PER_TENANT_MAX, KeyScope};
use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey, RotateApiKey};

impl Decide for CreateApiKey {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<ApiKey> {
        check_addition(view, &self.key)?;
        let key = ApiKey { created_at: now, ..self.key.clone() };
        let mut changes = Changes::default();
        changes.put(Table::ApiKeys, key.id.as_str(), &key);
        Ok(Decision { answer: key, changes })
    }
}

fn check_addition(view: &dyn View, new: &ApiKey) -> Result<(), StoreError> {
    let id = &new.id;
    if view.get(Table::ApiKeys, id.as_str())?.is_some() {
        return Err(StoreError::Conflict(format!("there is a key {id} already")));
    }
    let known = all(view)?;
    if known.len() >= KEYS_MAX {
        return Err(StoreError::Conflict(format!("there are {KEYS_MAX} keys; revoke one first")));
    }
    let of_tenant = known.iter().filter(|key| key.scope == new.scope).count();
    if new.scope != KeyScope::All && of_tenant >= KEYS_PER_TENANT_MAX {
        return Err(StoreError::Conflict(format!(
            "the tenant has {KEYS_PER_TENANT_MAX} keys; revoke one first"
        )));
    }
    Ok(())
}

impl Decide for RotateApiKey {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<ApiKey> {
        let row = view.get(Table::ApiKeys, self.id.as_str())?;
        let row = row.ok_or_else(|| StoreError::not_found("key", &self.id))?;
        let old: ApiKey = parse(Table::ApiKeys, self.id.as_str(), &row)?;
        if let Some(next) = &old.replaced_by {
            return Err(StoreError::Conflict(format!(
                "key {} was rotated already: {next} replaced it",
                self.id
            )));
        }
        check_addition(view, &self.key)?;
        let mut changes = Changes::default();
        if let Some(before) = &old.replaces {
            changes.delete(Table::ApiKeys, before.as_str());
        }
        let ends_at = old.expires_at.map_or(self.ends_at, |at| at.min(self.ends_at));
        let key = ApiKey { created_at: now, replaces: Some(self.id.clone()), ..self.key.clone() };
        let replaced_by = Some(key.id.clone());
        let old = ApiKey { expires_at: Some(ends_at), replaces: None, replaced_by, ..old };
        changes.put(Table::ApiKeys, old.id.as_str(), &old);
        changes.put(Table::ApiKeys, key.id.as_str(), &key);
        Ok(Decision { answer: key, changes })
    }
}

impl Decide for RevokeApiKey {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        if view.get(Table::ApiKeys, self.id.as_str())?.is_none() {
            return Err(StoreError::not_found("key", &self.id));
        }
        let mut changes = Changes::default();
        changes.delete(Table::ApiKeys, self.id.as_str());
        Ok(Decision { answer: (), changes })
    }
}

fn all(view: &dyn View) -> Result<Vec<ApiKey>, StoreError> {
    let rows = view.scan(Table::ApiKeys, "", "~", Pick::First(KEYS_MAX))?;
    rows.iter().map(|row| parse(Table::ApiKeys, &row.key, &row.value)).collect()
}

look!(ListApiKeys, |_verb, view| all(view));
