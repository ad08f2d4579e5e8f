//! At the end of a walk, both stores are read from one end to the other.

use std::collections::BTreeSet;

use super::super::scene::{acme, globex, name};
use super::Walk;
use crate::PageRequest;
use crate::documents::DocumentName;
use crate::runs::RunFilter;
use crate::tenants::LimitScope;
use crate::verbs::{
    CountDeadLetters, CountJobsBefore, CountRuns, ListActiveRuns, ListApiKeys, ListApprovals,
    ListBudgetEvents, ListBudgetGroups, ListBudgets, ListDeadLetters, ListJobs, ListLockHistory, ListLocks,
    ListRuns, ListWorkers, ListWorkflows, ReadDeadLetter, ReadDocument, ReadFigures, ReadJob, ReadLimits,
    ReadLock, ReadRegistry, ReadRun, ReadRunOwnership, ReadSnapshot, ReadTimeline, ReadUsage,
};

/// Asks for page after page.
macro_rules! every_page {
    ($walk:ident, $verb:ident { $($field:ident: $value:expr),* }) => {{
        let mut page = PageRequest { limit: 3, after: None };
        while let Ok(found) = $walk.ask($verb { $($field: $value,)* page: page.clone() }).await
            && found.next.is_some()
        {
            page.after = found.next;
        }
    }};
}

impl Walk {
    pub(super) async fn read_everything(&mut self) {
        for tenant in [acme(), globex()] {
            let _ = self.ask(ReadUsage { tenant: tenant.clone() }).await;
            let _ = self.ask(CountRuns { tenant: tenant.clone() }).await;
            let _ = self.ask(CountDeadLetters { tenant: tenant.clone() }).await;
            let _ = self.ask(ListActiveRuns { tenant: tenant.clone(), limit: 1_000 }).await;
            let _ = self.ask(ListBudgets { tenant: tenant.clone() }).await;
            let _ = self.ask(ReadLimits { scope: LimitScope::Tenant(tenant.clone()) }).await;
            every_page!(self, ListRuns { tenant: tenant.clone(), filter: RunFilter::default() });
            every_page!(self, ListJobs { tenant: tenant.clone(), state: None });
            every_page!(self, ListApprovals { tenant: tenant.clone() });
            every_page!(self, ListDeadLetters { tenant: tenant.clone() });
            every_page!(self, ListWorkers { tenant: tenant.clone() });
            every_page!(self, ListWorkflows { tenant: tenant.clone() });
            every_page!(self, ListLocks { tenant: tenant.clone() });
        }
        self.read_each().await;
        self.read_budgets().await;
        let _ = self.ask(ListApiKeys).await;
        let _ = self.ask(ReadRegistry).await;
        let _ = self.ask(ReadSnapshot).await;
        let _ = self.ask(ReadDocument { name: DocumentName::Contention }).await;
        for rollout in ["ro-0", "ro-1"] {
            let _ = self.ask(ReadFigures { rollout: name(rollout) }).await;
        }
    }

    async fn read_budgets(&mut self) {
        for (tenant, name, document, _) in self.known.budgets.clone() {
            let Some(window) = document.window_at(self.now()) else { continue };
            let (window, wall_lead, only) = (window.to_string(), 0, None);
            every_page!(
                self,
                ListBudgetGroups {
                    tenant: tenant.clone(),
                    name: name.clone(),
                    window: window.clone(),
                    wall_lead: wall_lead,
                    only: only.clone()
                }
            );
            let _ = self.ask(ListBudgetEvents { tenant, name }).await;
        }
    }

    async fn read_each(&mut self) {
        for (tenant, run) in self.known.runs.iter().cloned().collect::<BTreeSet<_>>() {
            let _ = self.ask(ReadRun { tenant: tenant.clone(), run }).await;
            let _ = self.ask(ReadRunOwnership { tenant: tenant.clone(), run }).await;
            let _ = self.ask(ReadTimeline { tenant, run, after: 0, limit: 1_000 }).await;
        }
        let jobs = self.known.jobs.iter().map(|(tenant, job, _)| (tenant.clone(), job.clone()));
        let jobs: BTreeSet<_> = jobs.chain(self.known.held.iter().cloned()).collect();
        for (tenant, job) in jobs {
            let _ = self.ask(ReadJob { tenant: tenant.clone(), job: job.clone() }).await;
            let _ = self.ask(CountJobsBefore { tenant: tenant.clone(), job: job.clone() }).await;
            let _ = self.ask(ReadDeadLetter { tenant, job }).await;
        }
        let mut locks = self.known.lock_calls.iter().map(|(lock, ..)| lock.clone()).collect::<Vec<_>>();
        locks.dedup();
        for lock in locks {
            let _ = self.ask(ReadLock { lock: lock.clone() }).await;
            every_page!(self, ListLockHistory { lock: lock.clone() });
        }
    }
}
