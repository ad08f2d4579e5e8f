//! The named limits of the system: one document, which each tenant has a copy of. A process knows a version of it and
//! applies that to a tenant before it starts a run there. It brings every change to all tenants, for the runs that wait.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::documents::{Document, DocumentName};
use interlock_backend::limits::{StoredLimit, SystemAdopted};
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{AdoptSystemLimits, ListTenants, ReadDocument, ReadLimits, SaveDocument};
use interlock_backend::{PageRequest, StoreError, Wake};
use interlock_model::TenantId;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::process::Process;
use crate::wakeups::Signal;

/// Tenants of one page of a pass through all of them, and how many are asked at once.
const PAGE: usize = 500;
const AT_ONCE: usize = 16;

/// Tenants that have a change before its author is answered. The others have it within a second.
const AT_THE_ANSWER: usize = 1_000;

/// How often a change is tried again because of others at the same time.
const CHANGES_MAX: u32 = 16;

/// The named limits of the system, by the names that they have in tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemBook {
    /// 0: there never was one.
    pub version: u64,
    /// By name.
    pub limits: Vec<StoredLimit>,
}

impl SystemBook {
    pub(crate) fn of(document: Option<&Document>) -> Result<Self, StoreError> {
        let Some(Document { version, text }) = document else { return Ok(Self::default()) };
        let limits = serde_json::from_str(text).map_err(|error| StoreError::Damaged {
            table: "documents",
            key: DocumentName::Limits.as_str().to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { version: *version, limits })
    }
}

/// What of the system all tenants have: the version of its named limits, and the revision of what it allows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spread {
    limits: u64,
    caps: u64,
}

pub struct SystemLimits {
    process: Arc<Process>,
    known: Mutex<Arc<SystemBook>>,
    /// By passes of this process. One pass at a time.
    spread: tokio::sync::Mutex<Spread>,
}

/// Follows the system's limits until `shutdown`; `spreads`: and brings changes to the tenants.
pub(crate) async fn follow(limits: Arc<SystemLimits>, spreads: bool, shutdown: CancellationToken) {
    let changed = limits.process.wakeups.waiter(Signal::LimitsChanged);
    let following = async {
        loop {
            let followed =
                if spreads { limits.spread(usize::MAX).await } else { limits.load().await.map(drop) };
            if let Err(error) = followed {
                warn!(%error, "could not apply the limits of the system everywhere; retrying");
            }
            // Woken or not, the store is read again.
            let _woken = tokio::time::timeout(limits.process.settings.tuning_poll, changed.notified()).await;
        }
    };
    shutdown.run_until_cancelled(following).await;
}

impl SystemLimits {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, known: Mutex::default(), spread: tokio::sync::Mutex::default() }
    }

    /// The version that this process knows.
    pub(crate) fn version(&self) -> u64 {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Reads the document.
    pub async fn load(&self) -> Result<Arc<SystemBook>, StoreError> {
        let document = self.process.call(ReadDocument { name: DocumentName::Limits }).await?;
        if document.as_ref().map_or(0, |document| document.version) != self.version() {
            self.learn(SystemBook::of(document.as_ref())?);
        }
        Ok(self.known.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// A document that was overtaken does not undo a newer one.
    fn learn(&self, book: SystemBook) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if book.version > known.version {
            *known = Arc::new(book);
        }
    }

    /// Changes the document in one step, and brings the change to the tenants. `change` gets the limits and the revision of
    /// this change; it is asked again if there was another one meanwhile.
    pub(crate) async fn change<T, E: From<StoreError>>(
        &self,
        mut change: impl FnMut(&mut Vec<StoredLimit>, u64) -> Result<T, E>,
    ) -> Result<T, E> {
        for _ in 0..CHANGES_MAX {
            let SystemBook { version: expected, mut limits } = (*self.load().await?).clone();
            let version = expected + 1;
            let changed = change(&mut limits, version)?;
            limits.sort_by(|one, other| one.name.cmp(&other.name));
            let text = serde_json::to_string(&limits).expect("limits are plain data with text keys");
            if self.process.call(SaveDocument { name: DocumentName::Limits, expected, text }).await? {
                self.learn(SystemBook { version, limits });
                self.changed().await;
                return Ok(changed);
            }
        }
        let reason = "too many change the limits of the system at the same time; nothing was changed";
        Err(StoreError::Conflict(reason.to_owned()).into())
    }

    /// What the system allows has changed: for the first tenants before the answer.
    pub(crate) async fn changed(&self) {
        self.process.wake(Wake::LimitsChanged);
        if let Err(error) = self.spread(AT_THE_ANSWER).await {
            warn!(%error, "the limits of the system are not applied everywhere yet");
        }
    }

    /// Brings what has changed to the tenants, at most to this many of them.
    pub async fn spread(&self, tenants_max: usize) -> Result<(), StoreError> {
        let mut spread = self.spread.lock().await;
        let book = self.load().await?;
        let caps = self.process.call(ReadLimits { scope: LimitScope::System }).await?.revision;
        let wanted = Spread { limits: book.version, caps };
        if wanted == *spread {
            return Ok(());
        }
        // Who has the limits already only looks at its own slots.
        let nothing = SystemBook::default();
        let book = if wanted.limits == spread.limits { &nothing } else { &*book };
        let (mut after, mut reached, mut failed) = (None, 0, None);
        while reached < tenants_max {
            let page = PageRequest { limit: PAGE, after };
            let page = self.process.call(ListTenants { page }).await?;
            reached += page.items.len();
            let adopting =
                page.items.into_iter().map(|tenant| async move { self.adopt(&tenant, book).await });
            let mut adopted = stream::iter(adopting).buffer_unordered(AT_ONCE);
            while let Some(adopted) = adopted.next().await {
                failed = failed.or(adopted.err());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        // What is left over is found by the next pass.
        if after.is_none() {
            *spread = wanted;
        }
        Ok(())
    }

    /// Applies what this process knows to one tenant.
    pub(crate) async fn apply(&self, tenant: &TenantId) -> Result<SystemAdopted, StoreError> {
        let book = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.adopt(tenant, &book).await
    }

    async fn adopt(&self, tenant: &TenantId, book: &SystemBook) -> Result<SystemAdopted, StoreError> {
        let SystemBook { version, limits } = book.clone();
        let adopted =
            self.process.call(AdoptSystemLimits { tenant: tenant.clone(), version, limits }).await?;
        if adopted.granted > 0 {
            debug!(%tenant, granted = adopted.granted, "the system's limits let runs start");
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        Ok(adopted)
    }
}
