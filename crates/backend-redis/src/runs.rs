//! Runs: admitted, taken, committed, ended.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::runs::{
    CancelRequest, Commit, Committed, Due, Glance, RunFilter, RunHold, RunStanding, RunStore, RunSummary,
    Taken,
};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::admission::{Admission, StartRun, Usage};
use interlock_model::run::{Head, InboxEvent, Run};
use interlock_model::time::millis;
use interlock_model::{Fence, InstanceId, JobId, RunId, TenantId, Timestamp};

use crate::dead_letters::with_letters;
use crate::link::{damaged, new_request};
use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{due, encode, scripts};

/// What one process knows is never enough to refuse a start: another may have freed a slot.
impl Glance for RedisStore {
    fn refusal(&self, _: &StartRun) -> Option<Admission> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.link.commands_sent()
    }
}

impl RedisStore {
    /// Takes ready runs, or the one that is named.
    async fn take_runs(
        &self,
        tenant: &TenantId,
        named: Option<RunId>,
        (holder, lease): (&InstanceId, Duration),
        limit: usize,
    ) -> Result<Vec<Taken>, StoreError> {
        let call = Call::write(&scripts::TAKE_READY, "take runs", tenant)
            .with(limit)
            .with(named.map(|run| run.to_string()));
        let taken = self.take_by(call, (holder, lease), read_all_taken).await?;
        for run in &taken {
            self.link.known().saw_fence(run.fence);
        }
        Ok(taken)
    }

    /// Makes a call that may take runs: who takes them follows its arguments.
    pub(crate) async fn take_by<T>(
        &self,
        call: Call,
        (holder, lease): (&InstanceId, Duration),
        read: impl FnOnce(Fields) -> Result<T, Unreadable>,
    ) -> Result<T, StoreError> {
        let gone = self.link.known().gone_instances();
        let call = call
            .with(holder.as_str())
            .with(millis(lease))
            .with_list(gone.iter(), |call, gone| call.push(gone.as_str()))
            .with_list(self.link.known().doubtful_holds().into_iter(), Call::push);
        let request = new_request();
        let name = call.script.name;
        let answered = self.link.call_as(call, &request).await.inspect_err(|error| {
            // What it may have taken would otherwise be nobody's until the lease ends.
            if is_in_doubt(error) {
                self.link.known().doubt_hold(request.clone());
            }
        });
        read(answered?).map_err(|error| damaged(name, error))
    }
}

#[async_trait]
impl RunStore for RedisStore {
    async fn admit(&self, start: &StartRun) -> Result<Admission, StoreError> {
        self.admissions.admit(&self.link, start).await
    }

    async fn take_ready(
        &self,
        tenant: &TenantId,
        holder: &InstanceId,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Taken>, StoreError> {
        self.take_runs(tenant, None, (holder, lease), limit).await
    }

    async fn take(
        &self,
        tenant: &TenantId,
        run: RunId,
        holder: &InstanceId,
        lease: Duration,
    ) -> Result<Option<Taken>, StoreError> {
        Ok(self.take_runs(tenant, Some(run), (holder, lease), 1).await?.pop())
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let committed = self.ask(commit_call(&commit), |mut fields| {
            let has_more = fields.text()? == "1";
            Ok(Committed { has_more, version: fields.parsed("version")? })
        });
        committed.await.inspect_err(|error| {
            if is_in_doubt(error) {
                self.link.known().doubt_hold(commit.fence.to_string());
            }
        })
    }

    async fn keep_run(
        &self,
        tenant: &TenantId,
        run: RunId,
        fence: Fence,
        lease: Duration,
    ) -> Result<(), StoreError> {
        let call = Call::write(&scripts::KEEP_RUN, "keep a run", tenant).of("run", run).under(fence);
        let call = call.with(run.to_string()).with(fence.number()).with(millis(lease));
        self.ask(call, |_| Ok(())).await
    }

    async fn let_go(&self, tenant: &TenantId, run: RunId, fence: Fence) -> Result<(), StoreError> {
        let call = Call::write(&scripts::LET_GO, "let go of a run", tenant);
        let let_go = self.ask(call.with(run.to_string()).with(fence.number()), |_| Ok(()));
        let_go.await.inspect_err(|error| {
            if is_in_doubt(error) {
                self.link.known().doubt_hold(fence.to_string());
            }
        })
    }

    async fn request_cancel(
        &self,
        tenant: &TenantId,
        run: RunId,
        by: &str,
    ) -> Result<CancelRequest, StoreError> {
        let event = encode::json(&InboxEvent::Cancel { by: by.to_owned() });
        let call = Call::write(&scripts::REQUEST_CANCEL, "cancel a run", tenant).of("run", run);
        self.ask(call.with(run.to_string()).with(event), |mut fields| match fields.text()?.as_str() {
            "posted" => Ok(CancelRequest::Posted),
            "ended" => Ok(CancelRequest::AlreadyEnded),
            _ => Err(fields.unreadable("cancellation")),
        })
        .await
    }

    async fn delete_run(&self, tenant: &TenantId, run: RunId) -> Result<Vec<JobId>, StoreError> {
        let call = Call::write(&scripts::DELETE_RUN, "delete a run", tenant).of("run", run);
        let read = |mut fields: Fields| fields.list()?.each(Fields::text);
        let mut jobs = self.ask(call.with(run.to_string()), read).await?;
        jobs.sort_unstable();
        Ok(jobs.iter().filter_map(|job| job.parse().ok()).collect())
    }

    async fn ripen(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        let call = Call::write(&scripts::RIPEN, "fire timers", tenant).with(limit);
        self.ask(call, |mut fields| fields.parsed("count")).await
    }

    async fn run(&self, tenant: &TenantId, run: RunId) -> Result<Option<Run>, StoreError> {
        let call = Call::read(&scripts::RUN, "read a run", tenant).of("run", run).with(run.to_string());
        found(self.ask(call, read_run).await)
    }

    async fn run_standing(&self, tenant: &TenantId, run: RunId) -> Result<RunStanding, StoreError> {
        let call = Call::read(&scripts::RUN_STANDING, "look who holds a run", tenant).with(run.to_string());
        self.ask(call, |mut fields| {
            let (now, is_ready) = (fields.time()?, fields.text()? == "1");
            let mut hold = fields.list()?;
            let hold = if hold.is_empty() {
                None
            } else {
                Some(RunHold { holder: hold.optional("instance")?, until: hold.optional_time()? })
            };
            Ok(RunStanding { now, is_ready, hold })
        })
        .await
    }

    async fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        page: &PageRequest,
    ) -> Result<Page<RunSummary>, StoreError> {
        let call = Call::read(&scripts::RUNS, "list runs", tenant)
            .with(page.after.as_deref())
            .with(page.limit)
            .with(filter.status.map(interlock_model::run::RunStatus::name))
            .with(filter.workflow.as_ref().map(interlock_model::WorkflowId::as_str));
        let read = |item: &mut Fields| {
            let mut item = item.list()?;
            Ok(RunSummary { start: item.json("start")?, head: item.json("head")? })
        };
        self.ask(call, |fields| fields.page(read)).await
    }

    async fn active_runs(&self, tenant: &TenantId, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let call = Call::read(&scripts::ACTIVE_RUNS, "list active runs", tenant).with(limit);
        self.ask(call, |mut fields| fields.list()?.each(|run| run.parsed("run id"))).await
    }

    async fn usage(&self, tenant: &TenantId) -> Result<Usage, StoreError> {
        let (runs_active, limits, _) = self.gate(tenant).await?;
        Ok(Usage { runs_active, runs_max: limits.under(self.link.known().system_limits().0).runs_max })
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        due::look(&self.link, limit).await
    }
}

/// What was asked for, or none if it is not there.
pub(crate) fn found<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A turn as `lua/commit.lua` reads it.
fn commit_call(commit: &Commit) -> Call {
    let head = Head { version: commit.version + 1, fence: commit.fence, ..commit.head.clone() };
    let job = |call: &mut Call, job: &JobId| call.push(job.to_string());
    let call = Call::write(&scripts::COMMIT, "commit a run", &commit.tenant)
        .of("run", commit.run)
        .under(commit.fence)
        .with(commit.run.to_string())
        .with(commit.fence.number())
        .with(commit.version)
        .with(encode::json(&head))
        .with(head.status.name())
        .with(head.due_at.map(Timestamp::as_millis))
        .with(commit.inbox_end)
        .with_list(commit.steps.iter(), |call, (key, step)| {
            call.push(key.to_string());
            call.push(encode::json(step));
        })
        .with_list(commit.events.iter(), |call, event| call.push(encode::json(event)))
        .with_list(commit.dispatched.iter(), |call, job| encode::put_job(&mut call.arguments, job))
        .with_list(commit.held.iter(), |call, held| encode::put_held(&mut call.arguments, held))
        .with_list(commit.revoked.iter(), job)
        .with_list(commit.approvals_opened.iter(), |call, approval| {
            encode::put_approval(&mut call.arguments, approval);
        })
        .with_list(commit.approvals_withdrawn.iter(), job);
    with_letters(call, &commit.buried, commit.letters_max)
}

/// Whether the store did not answer, so that a hold may be left behind.
fn is_in_doubt(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. })
}

fn read_all_taken(mut fields: Fields) -> Result<Vec<Taken>, Unreadable> {
    let now = fields.time()?;
    fields.list()?.each(|taken| read_taken(taken.list()?, now))
}

pub(crate) fn read_taken(mut fields: Fields, now: Timestamp) -> Result<Taken, Unreadable> {
    Ok(Taken {
        start: fields.json("start")?,
        head: fields.json("head")?,
        fence: fields.fence()?,
        inbox_end: fields.parsed("number")?,
        inbox: fields.list()?.each(|event| event.json("inbox event"))?,
        now,
    })
}

fn read_run(mut fields: Fields) -> Result<Run, Unreadable> {
    let (start, head) = (fields.json("start")?, fields.json("head")?);
    let steps = fields.list()?.each(|step| Ok((step.parsed("step")?, step.json("step")?)))?;
    Ok(Run { start, head, steps: BTreeMap::from_iter(steps) })
}
