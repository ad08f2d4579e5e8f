//! API keys.

use interlock_model::{ApiKeyId, Timestamp};
use rand::RngExt as _;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::keys::{ApiKey, KeyScope, Role};
use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey};

sampled!(CreateApiKey, 2, |walk| {
    let roles = [Role::Admin, Role::Operator, Role::Starter, Role::Worker, Role::Viewer];
    Some(CreateApiKey {
        key: ApiKey {
            id: walk.key_id(),
            name: walk.person(),
            role: walk.one_of(&roles),
            scope: if walk.flip(0.5) { KeyScope::All } else { KeyScope::Tenant(walk.tenant()) },
            secret_hash: format!("hash-{}", walk.random.random_range(0..9)),
            created_at: Timestamp::ZERO,
            expires_at: walk
                .flip(0.5)
                .then(|| Timestamp::from_millis(walk.random.random_range(0..1_000_000))),
        },
    })
});

sampled!(RevokeApiKey, 1, |walk| Some(RevokeApiKey { id: walk.key_id() }));

sampled!(ListApiKeys, 1, |_walk| Some(ListApiKeys));

impl Walk {
    fn key_id(&mut self) -> ApiKeyId {
        name(&format!("key{}", self.random.random_range(0..4)))
    }
}
