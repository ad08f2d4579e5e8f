//! What the walk has seen so far and may ask about again, stale or not.

use std::collections::BTreeMap;

use interlock_model::budget::BudgetDocument;
use interlock_model::child::NewChild;
use interlock_model::doctor::Finding;
use interlock_model::lock::LockName;
use interlock_model::{
    BudgetName, Clock as _, Fence, JobId, LockRequest, LockToken, PermitId, RunId, TenantId, Timestamp,
    Topic, WorkerId,
};
use rand::RngExt as _;

use super::super::inspection::Fixture;
use super::super::scene::{acme, globex, name};
use super::Walk;
use crate::runs::AcquiredRun;
use crate::verbs::Admit;
use crate::{Page, PageRequest};

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) runs: Vec<(TenantId, RunId)>,
    /// Those that waited for slots when they were started.
    pub(super) queued: Vec<(TenantId, RunId)>,
    /// With the last fence that is known of each.
    pub(super) jobs: Vec<(TenantId, JobId, Fence)>,
    pub(super) approvals: Vec<(TenantId, JobId)>,
    pub(super) held: Vec<(TenantId, JobId)>,
    /// That steps of runs have asked for.
    pub(super) children: Vec<(TenantId, NewChild)>,
    /// Of runs that were quarantined.
    pub(super) letters: Vec<(TenantId, JobId)>,
    pub(super) acquired: Vec<AcquiredRun>,
    pub(super) tokens: Vec<(LockName, LockToken)>,
    pub(super) lock_calls: Vec<(LockName, LockRequest, LockToken)>,
    pub(super) lock_fences: Vec<(LockName, Fence)>,
    /// Starts that were reserved or tried.
    pub(super) starts: Vec<Admit>,
    /// With the document and the revision that each was saved with.
    pub(super) budgets: Vec<(TenantId, BudgetName, BudgetDocument, u64)>,
    pub(super) permits: Vec<(TenantId, BudgetName, PermitId)>,
    pub(super) findings: Vec<Finding>,
    /// The last version of each tenant's workflow.
    pub(super) versions: BTreeMap<TenantId, u32>,
    /// The last change of each tenant's named limits.
    pub(super) limits_revisions: BTreeMap<TenantId, u64>,
    /// The version of the system's limits that each has.
    pub(super) system_versions: BTreeMap<TenantId, u64>,
    /// Of the document.
    pub(super) document_version: u64,
    /// Where each list continues.
    cursors: BTreeMap<String, Vec<String>>,
}

impl Known {
    pub(super) fn learn_fixture(&mut self, fixture: &Fixture) {
        let tenant = &fixture.tenant;
        let jobs = [&fixture.queued, &fixture.leased, &fixture.ended, &fixture.kept];
        self.jobs.extend(jobs.map(|job| (tenant.clone(), job.clone(), Fence::new(1))));
        self.approvals.extend([&fixture.asking, &fixture.orphan].map(|job| (tenant.clone(), job.clone())));
        let runs = [fixture.delayed, fixture.posted, fixture.held, fixture.missing];
        let runs = runs.into_iter().chain(jobs.map(|job| job.run));
        self.runs.extend(runs.map(|run| (tenant.clone(), run)));
    }

    pub(super) fn learn_page<T>(&mut self, list: String, page: &Page<T>) {
        self.cursors.entry(list).or_default().extend(page.next.clone());
    }

    /// The last fence of the lock that the walk was granted.
    pub(super) fn lock_fence(&self, lock: &LockName) -> Option<Fence> {
        self.lock_fences.iter().rev().find(|(of, _)| of == lock).map(|(_, fence)| *fence)
    }
}

impl Walk {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn tenant(&mut self) -> TenantId {
        if self.flip(0.7) { acme() } else { globex() }
    }

    /// Sometimes the tenant is another one, which must look as if the thing did not exist.
    fn perhaps_foreign(&mut self, tenant: TenantId) -> TenantId {
        if self.flip(0.03) { self.tenant() } else { tenant }
    }

    /// A run that waits or has waited, more often than another one.
    pub(super) fn queued_run(&mut self) -> Option<(TenantId, RunId)> {
        match self.pick(|known| &known.queued).filter(|_| self.flip(0.9)) {
            Some(queued) => Some(queued),
            None => self.run(),
        }
    }

    pub(super) fn run(&mut self) -> Option<(TenantId, RunId)> {
        let (tenant, run) = self.pick(|known| &known.runs)?;
        Some((self.perhaps_foreign(tenant), run))
    }

    /// A job with a fence, which is sometimes one that was never given out.
    pub(super) fn job(&mut self) -> Option<(TenantId, JobId, Fence)> {
        let (tenant, job, fence) = self.pick(|known| &known.jobs)?;
        let fence = if self.flip(0.1) { Fence::new(fence.number() + 1) } else { fence };
        Some((self.perhaps_foreign(tenant), job, fence))
    }

    pub(super) fn worker(&mut self) -> WorkerId {
        name(self.one_of(&["worker-1", "worker-2", "worker-3@host:1"]))
    }

    pub(super) fn topic(&mut self) -> Topic {
        name(if self.flip(0.8) { "build" } else { "test" })
    }

    /// Some of a few capabilities.
    pub(super) fn tags(&mut self) -> Vec<&'static str> {
        ["gpu", "gpu.2", "arm:64"].into_iter().filter(|_| self.flip(0.5)).collect()
    }

    pub(super) fn person(&mut self) -> String {
        self.one_of(&["someone", "an \"operator\""]).to_owned()
    }

    pub(super) fn limit(&mut self) -> usize {
        self.random.random_range(1..5)
    }

    /// A page of the list of this name: the first, or one that continues an earlier one.
    pub(super) fn page(&mut self, list: &str) -> PageRequest {
        let limit = self.limit();
        let after = if self.known.cursors.contains_key(list) && self.flip(0.5) {
            self.pick(|known| &known.cursors[list])
        } else {
            None
        };
        PageRequest { limit, after }
    }
}
