//! API keys.

use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey, RotateApiKey};
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
        workflows: None,
        replaces: None,
        replaced_by: None,
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

pub async fn a_rotated_key_is_replaced_once_and_ends_with_the_overlap(subject: &mut dyn Subject) {
    let store = subject.store();
    let scope = || KeyScope::Tenant(acme());
    let first = store.call(CreateApiKey { key: key("k1", scope()) }).await.unwrap();
    let rotate = async |old: &str, new: &str, ends_at| {
        let key = ApiKey { workflows: Some(vec![name("deploy-*")]), ..key(new, scope()) };
        store.call(RotateApiKey { id: name(old), ends_at: Timestamp::from_millis(ends_at), key }).await
    };
    let later = 1_794_700_812_345;
    let second = rotate("k1", "k2", later).await.unwrap();
    assert_eq!((second.replaces.as_ref(), &second.replaced_by), (Some(&first.id), &None));
    assert!(second.created_at >= first.created_at, "the store says when");
    let ended = ApiKey {
        expires_at: Some(Timestamp::from_millis(later)),
        replaced_by: Some(second.id.clone()),
        ..first
    };
    assert_eq!(store.call(ListApiKeys).await.unwrap(), [ended.clone(), second.clone()]);
    // Nothing of these is done.
    for (old, new) in [("k1", "k3"), ("k2", "k1"), ("k2", "k2")] {
        let refused = rotate(old, new, later).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{old} to {new}: {refused:?}");
    }
    assert!(matches!(rotate("k9", "k3", later).await, Err(StoreError::NotFound { .. })));
    assert_eq!(store.call(ListApiKeys).await.unwrap(), [ended, second.clone()]);
    // At most two work at a time, and a rotation makes nothing live longer.
    rotate("k2", "k3", later - 5).await.unwrap();
    let listed = store.call(ListApiKeys).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|key| key.id.as_str()).collect();
    assert_eq!(ids, ["k2", "k3"]);
    assert_eq!(listed[0].expires_at, Some(Timestamp::from_millis(later - 5)));
    assert_eq!(listed[0].workflows, second.workflows);
}

pub async fn a_rotation_makes_no_key_live_longer(subject: &mut dyn Subject) {
    let store = subject.store();
    let soon = Some(Timestamp::from_millis(1_794_700_800_001));
    let short = ApiKey { expires_at: soon, ..key("k1", KeyScope::All) };
    store.call(CreateApiKey { key: short }).await.unwrap();
    let ends_at = Timestamp::from_millis(1_794_700_900_000);
    store.call(RotateApiKey { id: name("k1"), ends_at, key: key("k2", KeyScope::All) }).await.unwrap();
    assert_eq!(store.call(ListApiKeys).await.unwrap()[0].expires_at, soon);
}
