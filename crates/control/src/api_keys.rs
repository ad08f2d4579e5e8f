//! API keys: made once, shown once, kept as a hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use interlock_backend::keys::{ApiKey, KeyScope, Role};
use interlock_backend::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey};
use interlock_backend::{StoreError, Wake};
use interlock_model::{ApiKeyId, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::process::Process;
use crate::wakeups::Signal;

/// What every key begins with, so that a leaked one is found by a search.
const PREFIX: &str = "ilk_";

/// How often the keys are read again, should a wake-up be lost.
const POLL: Duration = Duration::from_secs(1);

/// The API keys. Every request looks one up, so the process keeps them in memory.
pub struct ApiKeys {
    process: Arc<Process>,
    keys: RwLock<BTreeMap<ApiKeyId, ApiKey>>,
    /// The hash of a key from the command line: admin of every tenant.
    bootstrap: Option<blake3::Hash>,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub role: Role,
    pub scope: KeyScope,
}

/// What a presented key says about its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Recognition {
    Known(Principal),
    /// There are no keys at all: every caller is admin, and the server listens on loopback only.
    NoKeysConfigured,
    Unknown,
}

impl ApiKeys {
    /// The keys of the store, and one from the command line if there is one.
    pub async fn load(process: Arc<Process>, bootstrap: Option<&str>) -> Result<Arc<Self>, StoreError> {
        let bootstrap = bootstrap.map(|key| blake3::hash(key.as_bytes()));
        let keys = Self { process, keys: RwLock::default(), bootstrap };
        keys.refresh().await?;
        Ok(Arc::new(keys))
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let keys = self.process.call(ListApiKeys).await?;
        let keys = keys.into_iter().map(|key| (key.id.clone(), key)).collect();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Follows changes of the keys until `shutdown`.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let changed = self.process.wakeups.waiter(Signal::KeysChanged);
        loop {
            let heard = tokio::time::timeout(POLL, changed.notified());
            if shutdown.run_until_cancelled(heard).await.is_none() {
                return;
            }
            if let Err(error) = self.refresh().await {
                warn!(%error, "could not read the API keys; the last known ones stay in force");
            }
        }
    }

    pub fn has_keys(&self) -> bool {
        self.bootstrap.is_some() || !self.keys.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn recognise(&self, presented: Option<&str>) -> Recognition {
        let Some(presented) = presented else {
            return if self.has_keys() { Recognition::Unknown } else { Recognition::NoKeysConfigured };
        };
        // Comparing hashes takes the same time whatever differs.
        if self.bootstrap.is_some_and(|hash| hash == blake3::hash(presented.as_bytes())) {
            let name = "bootstrap key".to_owned();
            return Recognition::Known(Principal { name, role: Role::Admin, scope: KeyScope::All });
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() && self.bootstrap.is_none() {
            return Recognition::NoKeysConfigured;
        }
        let found = split(presented).and_then(|(id, secret)| {
            let key = keys.get(&id)?;
            let kept = blake3::Hash::from_hex(&key.secret_hash).ok()?;
            (kept == blake3::hash(secret.as_bytes())).then(|| key.clone())
        });
        match found {
            None => Recognition::Unknown,
            Some(key) => Recognition::Known(Principal { name: key.name, role: key.role, scope: key.scope }),
        }
    }
}

fn split(presented: &str) -> Option<(ApiKeyId, &str)> {
    let (id, secret) = presented.strip_prefix(PREFIX)?.split_once('_')?;
    Some((id.parse().ok()?, secret))
}

/// Why a key was not made or not revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the first key must be an admin key for all tenants: only such a key can make others")]
    FirstMustBeAdmin,
    #[error("this is the last admin key; make another before revoking it")]
    LastAdmin,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ApiKeys {
    /// Makes a key. Returns it with the only copy of its text.
    pub async fn create(
        &self,
        name: &str,
        role: Role,
        scope: KeyScope,
    ) -> Result<(ApiKey, String), KeyError> {
        let can_make_keys = role == Role::Admin && scope == KeyScope::All;
        if !self.has_keys() && !can_make_keys {
            return Err(KeyError::FirstMustBeAdmin);
        }
        let id: ApiKeyId =
            hex(&self.process.identity.secret()[..8]).parse().expect("hexadecimal digits make a key id");
        let secret = hex(&self.process.identity.secret());
        let key = ApiKey {
            id: id.clone(),
            name: name.to_owned(),
            role,
            scope,
            secret_hash: blake3::hash(secret.as_bytes()).to_hex().to_string(),
            created_at: Timestamp::ZERO,
        };
        let key = self.process.call(CreateApiKey { key }).await?;
        self.refresh().await?;
        self.process.wake(Wake::KeysChanged);
        Ok((key, format!("{PREFIX}{id}_{secret}")))
    }

    pub async fn revoke(&self, id: &ApiKeyId) -> Result<(), KeyError> {
        let keys = self.process.call(ListApiKeys).await?;
        let is_admin = |key: &&ApiKey| key.role == Role::Admin && key.scope == KeyScope::All;
        let admins: Vec<_> = keys.iter().filter(is_admin).collect();
        if self.bootstrap.is_none() && keys.len() > 1 && matches!(admins.as_slice(), [last] if last.id == *id)
        {
            return Err(KeyError::LastAdmin);
        }
        self.process.call(RevokeApiKey { id: id.clone() }).await?;
        self.refresh().await?;
        self.process.wake(Wake::KeysChanged);
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
