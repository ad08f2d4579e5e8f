//! API keys.

use interlock_model::{ApiKeyId, Timestamp};
use rand::RngExt as _;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::keys::{ApiKey, KeyScope, Role};
use crate::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey, RotateApiKey};

sampled!(CreateApiKey, 2, |walk| Some(CreateApiKey { key: walk.key() }));

sampled!(RotateApiKey, 2, |walk| {
    let (id, key) = (walk.key_id(), walk.key());
    Some(RotateApiKey { id, ends_at: walk.key_end(), key })
});

sampled!(RevokeApiKey, 1, |walk| Some(RevokeApiKey { id: walk.key_id() }));

sampled!(ListApiKeys, 1, |_walk| Some(ListApiKeys));

impl Walk {
    fn key(&mut self) -> ApiKey {
        let roles = [Role::Admin, Role::Operator, Role::Starter, Role::Worker, Role::Viewer];
        ApiKey {
            id: self.key_id(),
            name: self.person(),
            role: self.one_of(&roles),
            scope: if self.flip(0.5) { KeyScope::All } else { KeyScope::Tenant(self.tenant()) },
            secret_hash: format!("hash-{}", self.random.random_range(0..9)),
            created_at: Timestamp::ZERO,
            expires_at: self.flip(0.5).then(|| self.key_end()),
            workflows: self.flip(0.3).then(|| vec![name("deploy"), name("build-*")]),
            replaces: None,
            replaced_by: None,
        }
    }

    /// As far from the beginning as real times are: every digit must survive.
    fn key_end(&mut self) -> Timestamp {
        Timestamp::from_millis(1_794_700_800_000 + self.random.random_range(0..1_000_000))
    }

    fn key_id(&mut self) -> ApiKeyId {
        name(&format!("key{}", self.random.random_range(0..6)))
    }
}
