//! The contract, fulfilled by decisions.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::admission::{Admission, StartRun, Usage};
use interlock_model::approval::{Approval, Decision as Verdict, Resolution};
use interlock_model::history::Recorded;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::limit::{EffectiveLimits, Limits};
use interlock_model::run::Run;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{Fence, InstanceId, JobId, RunId, TenantId, Timestamp, WorkerId, WorkflowId};

use super::slots::Gate;
use super::tables::{Decision, Executor, View};
use super::{admit, approvals, claim, commit, expiry, history, jobs, runs, take, tenants, workflows};
use crate::approvals::ApprovalStore;
use crate::history::HistoryStore;
use crate::jobs::{Claim, Claimed, Heartbeat, JobStore, JobView, LeaseTerm, Progress, Report};
use crate::runs::{
    CancelRequest, Commit, Committed, Due, Glance, RunFilter, RunStanding, RunStore, RunSummary, Taken,
};
use crate::tenants::{LimitScope, TenantStore, WrittenLimits};
use crate::workflows::{WorkflowStore, WorkflowVersion};
use crate::{Page, PageRequest, StoreError};

/// A store whose verbs are decisions over the tables of `E`.
#[derive(Debug)]
pub struct LocalStore<E> {
    tables: E,
    commands: AtomicU64,
}

impl<E> LocalStore<E> {
    pub fn new(tables: E) -> Self {
        Self { tables, commands: AtomicU64::new(0) }
    }

    pub fn tables(&self) -> &E {
        &self.tables
    }
}

impl<E: Executor> LocalStore<E> {
    pub(super) fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.tables.write(action, decide)
    }

    pub(super) fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.tables.read(action, look)
    }
}

impl<E: Executor> Glance for LocalStore<E> {
    fn refusal(&self, start: &StartRun) -> Option<Admission> {
        self.tables.peek(&|view, now| admit::admit(view, now, start))
    }

    fn commands_sent(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl<E: Executor> RunStore for LocalStore<E> {
    async fn admit(&self, start: &StartRun) -> Result<Admission, StoreError> {
        let start = start.clone();
        self.write("admit a run", move |view, now| admit::admit(view, now, &start)).await
    }

    async fn take_ready(
        &self,
        tenant: &TenantId,
        holder: &InstanceId,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Taken>, StoreError> {
        let (tenant, holder) = (tenant.clone(), holder.clone());
        let decide =
            move |view: &dyn View, now| take::take_ready(view, now, &tenant, (&holder, lease), limit);
        self.write("take runs", decide).await
    }

    async fn take(
        &self,
        tenant: &TenantId,
        run: RunId,
        holder: &InstanceId,
        lease: Duration,
    ) -> Result<Option<Taken>, StoreError> {
        let (tenant, holder) = (tenant.clone(), holder.clone());
        let decide = move |view: &dyn View, now| take::take(view, now, (&tenant, run), (&holder, lease));
        self.write("take a run", decide).await
    }

    async fn commit(&self, turn: Commit) -> Result<Committed, StoreError> {
        self.write("commit a run", move |view, now| commit::commit(view, now, turn)).await
    }

    async fn keep_run(
        &self,
        tenant: &TenantId,
        run: RunId,
        fence: Fence,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        let decide = move |view: &dyn View, now| take::keep(view, now, (&tenant, run), fence, lease);
        self.write("keep a run", decide).await
    }

    async fn let_go(&self, tenant: &TenantId, run: RunId, fence: Fence) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write("let go of a run", move |view, _| take::let_go(view, &tenant, run, fence)).await
    }

    async fn request_cancel(
        &self,
        tenant: &TenantId,
        run: RunId,
        by: &str,
    ) -> Result<CancelRequest, StoreError> {
        let (tenant, by) = (tenant.clone(), by.to_owned());
        let decide = move |view: &dyn View, _| runs::request_cancel(view, (&tenant, run), &by);
        self.write("cancel a run", decide).await
    }

    async fn delete_run(&self, tenant: &TenantId, run: RunId) -> Result<Vec<JobId>, StoreError> {
        let tenant = tenant.clone();
        self.write("delete a run", move |view, now| runs::delete(view, now, (&tenant, run))).await
    }

    async fn ripen(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        let tenant = tenant.clone();
        self.write("fire timers", move |view, now| expiry::ripen(view, now, &tenant, limit)).await
    }

    async fn run(&self, tenant: &TenantId, run: RunId) -> Result<Option<Run>, StoreError> {
        let tenant = tenant.clone();
        self.read("read a run", move |view, _| runs::run(view, &tenant, run)).await
    }

    async fn run_standing(&self, tenant: &TenantId, run: RunId) -> Result<RunStanding, StoreError> {
        let tenant = tenant.clone();
        self.read("look who holds a run", move |view, now| take::standing(view, now, &tenant, run)).await
    }

    async fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        page: &PageRequest,
    ) -> Result<Page<RunSummary>, StoreError> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), page.clone());
        self.read("list runs", move |view, _| runs::list(view, &tenant, &filter, &page)).await
    }

    async fn active_runs(&self, tenant: &TenantId, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let tenant = tenant.clone();
        self.read("list active runs", move |view, _| runs::active(view, &tenant, limit)).await
    }

    async fn usage(&self, tenant: &TenantId) -> Result<Usage, StoreError> {
        let tenant = tenant.clone();
        self.read("read usage", move |view, _| Gate::read(view, &tenant).map(|gate| gate.usage())).await
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        self.read("look for work", move |view, now| expiry::due(view, now, limit)).await
    }
}

#[async_trait]
impl<E: Executor> JobStore for LocalStore<E> {
    async fn claim(&self, request: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.write("claim jobs", move |view, now| claim::claim(view, now, &request)).await
    }

    async fn heartbeat(&self, tenant: &TenantId, job: &JobId, fence: Fence) -> Result<Heartbeat, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        let decide = move |view: &dyn View, now| jobs::heartbeat(view, now, (&tenant, &job), fence, None);
        self.write("extend a job's lease", decide).await
    }

    async fn hold(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: LeaseTerm,
    ) -> Result<Heartbeat, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        let decide =
            move |view: &dyn View, now| jobs::heartbeat(view, now, (&tenant, &job), fence, Some(term));
        self.write("extend a job's lease", decide).await
    }

    async fn progress(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        progress: Progress,
    ) -> Result<(), StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        let decide = move |view: &dyn View, now| jobs::progress(view, now, (&tenant, &job), fence, progress);
        self.write("record progress", decide).await
    }

    async fn report(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<Report, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        let decide = move |view: &dyn View, now| jobs::report(view, now, (&tenant, &job), fence, outcome);
        self.write("record a result", decide).await
    }

    async fn cancel_job(&self, tenant: &TenantId, job: &JobId, by: &str) -> Result<JobState, StoreError> {
        let (tenant, job, by) = (tenant.clone(), job.clone(), by.to_owned());
        let decide = move |view: &dyn View, now| jobs::cancel(view, now, (&tenant, &job), &by);
        self.write("cancel a job", decide).await
    }

    async fn expire(&self, tenant: &TenantId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let tenant = tenant.clone();
        self.write("expire leases", move |view, now| expiry::expire(view, now, &tenant, limit)).await
    }

    async fn abandon(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let (tenant, worker) = (tenant.clone(), worker.clone());
        let decide = move |view: &dyn View, now| expiry::abandon(view, now, (&tenant, &worker), limit);
        self.write("end a worker's leases", decide).await
    }

    async fn jobs_before(&self, tenant: &TenantId, job: &JobId) -> Result<Option<usize>, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        self.read("count the jobs before one", move |view, _| jobs::before(view, &tenant, &job)).await
    }

    async fn job(&self, tenant: &TenantId, job: &JobId) -> Result<Option<JobView>, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        self.read("read a job", move |view, _| jobs::view_job(view, &tenant, &job)).await
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        state: Option<JobState>,
        page: &PageRequest,
    ) -> Result<Page<JobView>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list jobs", move |view, _| jobs::list(view, &tenant, state, &page)).await
    }
}

#[async_trait]
impl<E: Executor> ApprovalStore for LocalStore<E> {
    async fn resolve(
        &self,
        tenant: &TenantId,
        job: &JobId,
        verdict: Verdict,
    ) -> Result<Resolution, StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        let decide = move |view: &dyn View, now| approvals::resolve(view, now, (&tenant, &job), verdict);
        self.write("resolve an approval", decide).await
    }

    async fn approvals(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<Approval>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list approvals", move |view, _| approvals::open(view, &tenant, &page)).await
    }
}

#[async_trait]
impl<E: Executor> HistoryStore for LocalStore<E> {
    async fn timeline(
        &self,
        tenant: &TenantId,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let tenant = tenant.clone();
        let look = move |view: &dyn View, _| history::timeline(view, (&tenant, run), after, limit);
        self.read("read a timeline", look).await
    }
}

#[async_trait]
impl<E: Executor> TenantStore for LocalStore<E> {
    async fn set_limits(&self, scope: &LimitScope, limits: Limits) -> Result<u64, StoreError> {
        let scope = scope.clone();
        self.write("set limits", move |view, _| tenants::set(view, &scope, limits)).await
    }

    async fn limits(&self, scope: &LimitScope) -> Result<WrittenLimits, StoreError> {
        let scope = scope.clone();
        self.read("read limits", move |view, _| tenants::written(view, &scope)).await
    }

    async fn effective_limits(&self, tenant: &TenantId) -> Result<EffectiveLimits, StoreError> {
        let tenant = tenant.clone();
        self.read("read limits", move |view, _| Gate::read(view, &tenant).map(|gate| gate.limits)).await
    }

    async fn tenants(&self, page: &PageRequest) -> Result<Page<TenantId>, StoreError> {
        let page = page.clone();
        self.read("list tenants", move |view, _| tenants::list(view, &page)).await
    }
}

#[async_trait]
impl<E: Executor> WorkflowStore for LocalStore<E> {
    async fn save_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        document: &WorkflowDocument,
    ) -> Result<u32, StoreError> {
        let (tenant, id, document) = (tenant.clone(), id.clone(), document.clone());
        let decide = move |view: &dyn View, now| workflows::save(view, now, (&tenant, &id), document);
        self.write("save a workflow", decide).await
    }

    async fn workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<WorkflowVersion>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read("read a workflow", move |view, _| workflows::current(view, &tenant, &id)).await
    }

    async fn workflow_version(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        version: u32,
    ) -> Result<Option<WorkflowVersion>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let look = move |view: &dyn View, _| workflows::version(view, (&tenant, &id), version);
        self.read("read a workflow", look).await
    }

    async fn workflows(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<WorkflowVersion>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list workflows", move |view, _| workflows::list(view, &tenant, &page)).await
    }

    async fn delete_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write("delete a workflow", move |view, _| workflows::delete(view, &tenant, &id)).await
    }
}
