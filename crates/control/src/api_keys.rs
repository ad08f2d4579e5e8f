//! API keys: made once, shown once, kept as a hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use interlock_backend::keys::{ApiKey, KeyMark, KeyScope, Role};
use interlock_backend::verbs::{CreateApiKey, ListApiKeys, RevokeApiKey, RotateApiKey};
use interlock_backend::{StoreError, Wake};
use interlock_model::api_key::WorkflowPattern;
use interlock_model::{ApiKeyId, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::process::Process;
use crate::wakeups::Signal;

/// What every key begins with, so that a leaked one is found by a search.
const PREFIX: &str = "ilk_";

/// How often the keys are read again, should a wake-up be lost.
const POLL: Duration = Duration::from_secs(1);

/// Between two reads of the keys, however often they change: everything is read.
const REST: Duration = Duration::from_millis(200);

/// The API keys. Every request looks one up, so the process keeps them in memory.
pub struct ApiKeys {
    process: Arc<Process>,
    keys: RwLock<BTreeMap<ApiKeyId, ApiKey>>,
    /// A key that is made meanwhile must not be lost to what was read before.
    refreshing: tokio::sync::Mutex<()>,
    /// The hash of a key from the command line: admin of every tenant.
    bootstrap: Option<blake3::Hash>,
    /// There is a key, or there was one: from then on no request without a key is answered, whatever the store has lost.
    is_closed: AtomicBool,
    /// Remembers the same where the store cannot lose it, if there is such a place.
    mark: Option<Arc<dyn KeyMark>>,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub role: Role,
    pub scope: KeyScope,
    /// The only workflows that its key may do something about.
    pub workflows: Option<Vec<WorkflowPattern>>,
    /// When its key expires.
    pub expires_at: Option<Timestamp>,
}

/// What a key is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTerms {
    pub name: String,
    pub role: Role,
    pub scope: KeyScope,
    pub workflows: Option<Vec<WorkflowPattern>>,
    /// None: for ever.
    pub lifetime: Option<Duration>,
}

/// What a presented key says about its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Recognition {
    Known(Principal),
    /// There are no keys, and there never were: every caller is admin, and the server listens on loopback only.
    NoKeysConfigured,
    Expired,
    Unknown,
}

impl ApiKeys {
    /// The keys of the store, and one from the command line if there is one.
    pub async fn load(
        process: Arc<Process>,
        bootstrap: Option<&str>,
        mark: Option<Arc<dyn KeyMark>>,
    ) -> Result<Arc<Self>, KeyError> {
        let bootstrap = bootstrap.map(|key| blake3::hash(key.as_bytes()));
        let is_closed = AtomicBool::new(bootstrap.is_some());
        let (keys, refreshing) = (RwLock::default(), tokio::sync::Mutex::default());
        let keys = Self { process, keys, refreshing, bootstrap, is_closed, mark };
        keys.refresh().await?;
        let is_empty = keys.keys.read().unwrap_or_else(PoisonError::into_inner).is_empty();
        match &keys.mark {
            Some(mark) if !is_empty => mark.set().await?,
            Some(mark) if bootstrap.is_none() && mark.is_set().await? => return Err(KeyError::Lost),
            Some(_) | None => {}
        }
        Ok(Arc::new(keys))
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let _alone = self.refreshing.lock().await;
        let keys = self.process.call(ListApiKeys).await?;
        let keys: BTreeMap<_, _> = keys.into_iter().map(|key| (key.id.clone(), key)).collect();
        if !keys.is_empty() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
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
            if shutdown.run_until_cancelled(tokio::time::sleep(REST)).await.is_none() {
                return;
            }
        }
    }

    /// Whether requests need a key.
    pub fn are_needed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub fn has_expired(&self, key: &ApiKey) -> bool {
        key.expires_at.is_some_and(|at| at <= self.process.now())
    }

    pub fn recognise(&self, presented: Option<&str>) -> Recognition {
        if !self.are_needed() {
            return Recognition::NoKeysConfigured;
        }
        let Some(presented) = presented else { return Recognition::Unknown };
        // Comparing hashes takes the same time whatever differs.
        if self.bootstrap.is_some_and(|hash| hash == blake3::hash(presented.as_bytes())) {
            let name = "bootstrap key".to_owned();
            let (role, scope) = (Role::Admin, KeyScope::All);
            return Recognition::Known(Principal { name, role, scope, workflows: None, expires_at: None });
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let found = split(presented).and_then(|(id, secret)| {
            let key = keys.get(&id)?;
            let kept = blake3::Hash::from_hex(&key.secret_hash).ok()?;
            (kept == blake3::hash(secret.as_bytes())).then(|| key.clone())
        });
        match found {
            None => Recognition::Unknown,
            Some(key) if self.has_expired(&key) => Recognition::Expired,
            Some(ApiKey { name, role, scope, workflows, expires_at, .. }) => {
                Recognition::Known(Principal { name, role, scope, workflows, expires_at })
            }
        }
    }
}

fn split(presented: &str) -> Option<(ApiKeyId, &str)> {
    let (id, secret) = presented.strip_prefix(PREFIX)?.split_once('_')?;
    Some((id.parse().ok()?, secret))
}

/// Why a key was not made, rotated or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(
        "the first key must be an admin key for all tenants that does not expire: only such a key can make others"
    )]
    FirstMustBeAdmin,
    #[error("a key that expires can only make keys that expire no later than itself")]
    OutlivesCreator,
    #[error("the key has expired; create another")]
    Expired,
    #[error("this is the last admin key that does not expire; make another before revoking it")]
    LastAdmin,
    #[error(
        "this installation had API keys, and its store has none: the store lost its data. Restore it, or start with \
         --admin-key to make new keys"
    )]
    Lost,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ApiKeys {
    /// Makes a key. Returns it with the only copy of its text.
    pub async fn create(
        &self,
        terms: KeyTerms,
        creator_expires_at: Option<Timestamp>,
    ) -> Result<(ApiKey, String), KeyError> {
        let (key, text) = self.new_key(terms, creator_expires_at)?;
        if !self.are_needed() && !key.can_make_keys() {
            return Err(KeyError::FirstMustBeAdmin);
        }
        if let Some(mark) = &self.mark {
            // First: a key that the store then loses must not leave the door open.
            mark.set().await?;
        }
        let key = self.process.call(CreateApiKey { key }).await?;
        self.add(key.clone()).await;
        self.process.wake(Wake::KeysChanged);
        Ok((key, text))
    }

    /// Replaces a key by one with the same terms, which lives as long as the old one did. The old one ends after `overlap`.
    pub async fn rotate(
        &self,
        id: &ApiKeyId,
        overlap: Duration,
        creator_expires_at: Option<Timestamp>,
    ) -> Result<(ApiKey, String), KeyError> {
        let keys = self.process.call(ListApiKeys).await?;
        let old = keys.into_iter().find(|key| key.id == *id);
        let old = old.ok_or_else(|| StoreError::not_found("key", id))?;
        if self.has_expired(&old) {
            return Err(KeyError::Expired);
        }
        let lifetime = old.expires_at.map(|at| at.since(old.created_at));
        let ApiKey { name, role, scope, workflows, .. } = old;
        let (key, text) =
            self.new_key(KeyTerms { name, role, scope, workflows, lifetime }, creator_expires_at)?;
        let rotate = RotateApiKey { id: id.clone(), ends_at: self.process.now() + overlap, key };
        let key = self.process.call(rotate).await?;
        self.changed().await?;
        Ok((key, text))
    }

    /// A key with a new id and secret, and its text.
    fn new_key(
        &self,
        terms: KeyTerms,
        creator_expires_at: Option<Timestamp>,
    ) -> Result<(ApiKey, String), KeyError> {
        let KeyTerms { name, role, scope, workflows, lifetime } = terms;
        let expires_at = lifetime.map(|lifetime| self.process.now() + lifetime);
        if creator_expires_at.is_some_and(|latest| expires_at.is_none_or(|at| at > latest)) {
            return Err(KeyError::OutlivesCreator);
        }
        let id: ApiKeyId =
            hex(&self.process.identity.secret()[..8]).parse().expect("hexadecimal digits make a key id");
        let secret = hex(&self.process.identity.secret());
        let text = format!("{PREFIX}{id}_{secret}");
        let secret_hash = blake3::hash(secret.as_bytes()).to_hex().to_string();
        let (created_at, replaces, replaced_by) = (Timestamp::ZERO, None, None);
        let key = ApiKey {
            id,
            name,
            role,
            scope,
            secret_hash,
            created_at,
            expires_at,
            workflows,
            replaces,
            replaced_by,
        };
        Ok((key, text))
    }

    /// In force here at once.
    async fn add(&self, key: ApiKey) {
        let _alone = self.refreshing.lock().await;
        self.is_closed.store(true, Ordering::Relaxed);
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(key.id.clone(), key);
    }

    /// In force here at once, and on other replicas when they hear of it.
    async fn changed(&self) -> Result<(), StoreError> {
        self.refresh().await?;
        self.process.wake(Wake::KeysChanged);
        Ok(())
    }

    pub async fn revoke(&self, id: &ApiKeyId) -> Result<(), KeyError> {
        let keys = self.process.call(ListApiKeys).await?;
        let admins: Vec<_> = keys.iter().filter(|key| key.can_make_keys()).collect();
        if self.bootstrap.is_none() && matches!(admins.as_slice(), [last] if last.id == *id) {
            return Err(KeyError::LastAdmin);
        }
        self.process.call(RevokeApiKey { id: id.clone() }).await?;
        Ok(self.changed().await?)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
