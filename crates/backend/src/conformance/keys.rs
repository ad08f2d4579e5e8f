//! API keys.

use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey};
use interlock_model::Timestamp;

use super::Subject;
use super::scene::{acme, name};
use crate::StoreError;
use crate::keys::{ApiKey, KeyScope, Role};

pub async fn a_key_is_kept_until_it_is_revoked(subject: &mut dyn Subject) {
    let store = subject.store();
    let key = ApiKey {
        id: name("k1"),
        name: "ci".to_owned(),
        role: Role::Starter,
        scope: KeyScope::Tenant(acme()),
        secret_hash: "00".to_owned(),
        created_at: Timestamp::ZERO,
    };
    let kept = store.call(CreateApiKey { key: key.clone() }).await.unwrap();
    assert!(kept.created_at > Timestamp::ZERO, "the store says when");
    assert!(matches!(store.call(CreateApiKey { key }).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.call(ListApiKeys).await.unwrap(), std::slice::from_ref(&kept));
    store.call(RevokeApiKey { id: kept.id.clone() }).await.unwrap();
    assert!(matches!(
        store.call(RevokeApiKey { id: kept.id.clone() }).await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(store.call(ListApiKeys).await.unwrap().is_empty());
}
