//! What one process knows of the store. Nothing in it decides; the scripts do.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use interlock_model::limit::Limits;
use interlock_model::{Fence, InstanceId, TenantId};

/// Run leases in doubt that are remembered; older ones expire by themselves.
const DOUBTFUL_LEASES_MAX: usize = 256;

pub(crate) struct Known {
    heard: Mutex<Heard>,
    fences: Fences,
}

/// What was last heard of the system.
#[derive(Debug, Default)]
struct Heard {
    limits: Limits,
    limits_revision: u64,
    /// Instances that were not heard of for too long: their locks hold no more.
    gone: Vec<InstanceId>,
    /// Tenants that are certainly in the list of all.
    listed: BTreeSet<TenantId>,
    /// Run leases that this process may have without knowing: by the request that acquired them, or by the fence of the
    /// commit whose answer was lost for good.
    doubtful_leases: VecDeque<String>,
}

/// Fences never go back, also when the store comes back as another one that has forgotten the last of them.
#[derive(Debug, Default)]
struct Fences {
    seen: AtomicU64,
    floor: AtomicU64,
    store_changes: AtomicU64,
}

impl Known {
    /// Nothing yet, of a store that was replaced `store_changes` times so far.
    pub(crate) fn new(store_changes: u64) -> Self {
        let fences = Fences { store_changes: AtomicU64::new(store_changes), ..Fences::default() };
        Self { heard: Mutex::default(), fences }
    }

    pub(crate) fn system_limits(&self) -> (Limits, u64) {
        let heard = self.heard();
        (heard.limits, heard.limits_revision)
    }

    pub(crate) fn learn_limits(&self, limits: Limits, revision: u64) {
        let mut heard = self.heard();
        // An answer that was overtaken must not undo a newer one.
        if revision >= heard.limits_revision {
            (heard.limits, heard.limits_revision) = (limits, revision);
        }
    }

    /// What this process has written itself is in force for it, whatever it knew before.
    pub(crate) fn wrote_limits(&self, limits: Limits, revision: u64) {
        let mut heard = self.heard();
        (heard.limits, heard.limits_revision) = (limits, revision);
    }

    /// Remembers a run lease that nothing in this process will release: the next acquirer may ignore it.
    pub(crate) fn doubt_lease(&self, mark: String) {
        let mut heard = self.heard();
        if heard.doubtful_leases.len() == DOUBTFUL_LEASES_MAX {
            heard.doubtful_leases.pop_front();
        }
        heard.doubtful_leases.push_back(mark);
    }

    pub(crate) fn doubtful_leases(&self) -> Vec<String> {
        self.heard().doubtful_leases.iter().cloned().collect()
    }

    pub(crate) fn gone_instances(&self) -> Vec<InstanceId> {
        self.heard().gone.clone()
    }

    pub(crate) fn learn_gone(&self, gone: Vec<InstanceId>) {
        self.heard().gone = gone;
    }

    pub(crate) fn is_listed(&self, tenant: &TenantId) -> bool {
        self.heard().listed.contains(tenant)
    }

    pub(crate) fn listed(&self, tenant: &TenantId) {
        self.heard().listed.insert(tenant.clone());
    }

    /// Remembers a fence that this process was given.
    pub(crate) fn saw_fence(&self, fence: Fence) {
        self.fences.seen.fetch_max(fence.number(), Ordering::SeqCst);
    }

    /// The fence that the next one must exceed, on a store that was replaced `store_changes` times so far.
    pub(crate) fn fence_floor(&self, store_changes: u64) -> u64 {
        if self.fences.store_changes.load(Ordering::SeqCst) != store_changes {
            // The floor first: a reader that sees the new number must see the floor, too.
            self.fences.floor.fetch_max(self.fences.seen.load(Ordering::SeqCst), Ordering::SeqCst);
            self.fences.store_changes.store(store_changes, Ordering::SeqCst);
            // The new store may have lost the list of tenants and the last limits, too.
            let mut heard = self.heard();
            heard.listed.clear();
            heard.limits_revision = 0;
        }
        self.fences.floor.load(Ordering::SeqCst)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
