//! API keys.

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
    let kept = store.create_key(key.clone()).await.unwrap();
    assert!(kept.created_at > Timestamp::ZERO, "the store says when");
    assert!(matches!(store.create_key(key).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.api_keys().await.unwrap(), std::slice::from_ref(&kept));
    store.revoke_key(&kept.id).await.unwrap();
    assert!(matches!(store.revoke_key(&kept.id).await, Err(StoreError::NotFound { .. })));
    assert!(store.api_keys().await.unwrap().is_empty());
}
