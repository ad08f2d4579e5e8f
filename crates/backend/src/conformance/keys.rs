//! API keys.

use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey};
use interlock_model::Timestamp;

use super::Subject;
use super::scene::{acme, globex, name};
use crate::StoreError;
use crate::keys::{ApiKey, KEYS_PER_TENANT_MAX, KeyScope, Role};

fn key(id: &str, scope: KeyScope) -> ApiKey {
    ApiKey {
        id: name(id),
        name: "ci".to_owned(),
        role: Role::Starter,
        scope,
        secret_hash: "00".to_owned(),
        created_at: Timestamp::ZERO,
        expires_at: None,
    }
}

pub async fn a_tenant_can_have_only_its_share_of_the_keys(subject: &mut dyn Subject) {
    let store = subject.store();
    for number in 0..KEYS_PER_TENANT_MAX {
        let key = key(&format!("k{number}"), KeyScope::Tenant(acme()));
        store.call(CreateApiKey { key }).await.unwrap();
    }
    let create = async |id, scope| store.call(CreateApiKey { key: key(id, scope) }).await;
    let refused = create("onemore", KeyScope::Tenant(acme())).await;
    assert!(
        matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("the tenant has")),
        "{refused:?}"
    );
    create("ofanother", KeyScope::Tenant(globex())).await.unwrap();
    create("ofall", KeyScope::All).await.unwrap();
    store.call(RevokeApiKey { id: name("k7") }).await.unwrap();
    create("onemore", KeyScope::Tenant(acme())).await.unwrap();
}

pub async fn a_key_is_kept_until_it_is_revoked(subject: &mut dyn Subject) {
    let store = subject.store();
    let key = key("k1", KeyScope::Tenant(acme()));
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
