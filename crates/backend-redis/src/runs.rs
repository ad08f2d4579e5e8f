//! Runs: acquired, committed, ended.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_backend::Page;
use interlock_backend::runs::{AcquiredRun, CancelOutcome, Committed, RunHolder, RunOwnership, RunSummary};
use interlock_backend::verbs::{
    AcquireReadyRuns, AcquireRun, Commit, DeleteRun, ExtendRunLease, FireTimers, ListActiveRuns, ListRuns,
    ReadRun, ReadRunOwnership, ReleaseRun, RequestCancel,
};
use interlock_model::run::{Head, InboxEvent, Run, RunStatus};
use interlock_model::{InstanceId, JobId, RunId, Timestamp};

use crate::client::ScriptClient;
use crate::known::Known;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;
use crate::{dead_letters, encode};

impl Scripted for AcquireReadyRuns {
    fn script() -> &'static Script {
        script!("acquire_ready_runs")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        let call = Call::to::<Self>(&self.tenant).with("limit", self.limit);
        with_acquirer(call, client, (&self.holder, self.lease))
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<AcquiredRun>, Unreadable> {
        let now = reply.time("now")?;
        reply.each("runs", |run| read_acquired(run, now))
    }

    fn learn(&self, answer: &Vec<AcquiredRun>, known: &Known) {
        for run in answer {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for AcquireRun {
    fn script() -> &'static Script {
        script!("acquire_run")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        let call = Call::to::<Self>(&self.tenant).with("run", self.run);
        with_acquirer(call, client, (&self.holder, self.lease))
    }

    fn read(&self, mut reply: Reply) -> Result<Option<AcquiredRun>, Unreadable> {
        let now = reply.time("now")?;
        reply.part("run").when_found(|run| read_acquired(run, now))
    }

    fn learn(&self, answer: &Option<AcquiredRun>, known: &Known) {
        if let Some(run) = answer {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for Commit {
    fn script() -> &'static Script {
        script!("commit")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let head = Head { version: self.version + 1, fence: self.fence, ..self.head.clone() };
        Call::to::<Self>(&self.tenant)
            .of("run", self.run)
            .under(self.fence)
            .with("run", self.run)
            .with("fence", self.fence)
            .with("version", self.version)
            .with("head", encode::json(&head))
            .with("status", head.status.name())
            .with("due_at", head.due_at)
            .with("inbox_end", self.inbox_end)
            .with("steps", encode::steps(self.steps.iter()))
            .with("events", self.events.iter().map(encode::json).collect::<Vec<_>>())
            .with("dispatched", encode::jobs(&self.dispatched))
            .with("held", encode::held(&self.held))
            .with("revoked", &self.revoked)
            .with("approvals_opened", encode::approvals(&self.approvals_opened))
            .with("approvals_withdrawn", &self.approvals_withdrawn)
            .with("dead_letters", dead_letters::packed(&self.buried, self.dead_letters_max))
    }

    fn read(&self, mut reply: Reply) -> Result<Committed, Unreadable> {
        Ok(Committed { has_more: reply.flag("has_more"), version: reply.parsed("version")? })
    }

    fn lease_in_doubt(&self, _: &str) -> Option<String> {
        Some(self.fence.to_string())
    }
}

impl Scripted for ExtendRunLease {
    fn script() -> &'static Script {
        script!("extend_run_lease")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("run", self.run)
            .under(self.fence)
            .with("run", self.run)
            .with("fence", self.fence)
            .with("lease", self.lease)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for ReleaseRun {
    fn script() -> &'static Script {
        script!("release_run")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("run", self.run).with("fence", self.fence)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }

    fn lease_in_doubt(&self, _: &str) -> Option<String> {
        Some(self.fence.to_string())
    }
}

impl Scripted for RequestCancel {
    fn script() -> &'static Script {
        script!("request_cancel")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("run", self.run)
            .with("run", self.run)
            .with("event", encode::json(&InboxEvent::Cancel { by: self.by.clone() }))
    }

    fn read(&self, mut reply: Reply) -> Result<CancelOutcome, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "posted" => Ok(CancelOutcome::Posted),
            "ended" => Ok(CancelOutcome::AlreadyEnded),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for DeleteRun {
    fn script() -> &'static Script {
        script!("delete_run")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).of("run", self.run).with("run", self.run)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<JobId>, Unreadable> {
        let mut jobs: Vec<String> = reply.each("jobs", |job| job.into_parsed("job"))?;
        jobs.sort_unstable();
        Ok(jobs.iter().filter_map(|job| job.parse().ok()).collect())
    }
}

impl Scripted for FireTimers {
    fn script() -> &'static Script {
        script!("fire_timers")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<usize, Unreadable> {
        reply.parsed("fired")
    }
}

impl Scripted for ReadRun {
    fn script() -> &'static Script {
        script!("read_run")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("run", self.run)
    }

    fn read(&self, reply: Reply) -> Result<Option<Run>, Unreadable> {
        reply.when_found(|mut run| {
            let read = |key: Reply, step: Reply| Ok((key.into_parsed("step")?, step.into_json("step")?));
            let steps = run.pairs("steps", read)?;
            Ok(Run { start: run.json("start")?, head: run.json("head")?, steps: BTreeMap::from_iter(steps) })
        })
    }
}

impl Scripted for ReadRunOwnership {
    fn script() -> &'static Script {
        script!("read_run_ownership")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("run", self.run)
    }

    fn read(&self, mut reply: Reply) -> Result<RunOwnership, Unreadable> {
        let holder = if reply.flag("is_held") {
            Some(RunHolder { instance: reply.optional("holder")?, until: reply.optional_time("until")? })
        } else {
            None
        };
        Ok(RunOwnership { now: reply.time("now")?, is_ready: reply.flag("is_ready"), holder })
    }
}

impl Scripted for ListRuns {
    fn script() -> &'static Script {
        script!("list_runs")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .page(&self.page)
            .with("status", self.filter.status.map(RunStatus::name))
            .with("workflow", self.filter.workflow.as_ref())
    }

    fn read(&self, reply: Reply) -> Result<Page<RunSummary>, Unreadable> {
        reply.page(|mut item| Ok(RunSummary { start: item.json("start")?, head: item.json("head")? }))
    }
}

impl Scripted for ListActiveRuns {
    fn script() -> &'static Script {
        script!("list_active_runs")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<RunId>, Unreadable> {
        reply.each("runs", |run| run.into_parsed("run"))
    }
}

/// Who acquires runs, for how long, and whose leases no longer count: see `lua/shared/acquire.lua`.
pub(crate) fn with_acquirer(
    call: Call,
    client: &ScriptClient,
    (holder, lease): (&InstanceId, Duration),
) -> Call {
    call.with("holder", holder)
        .with("lease", lease)
        .with("gone_instances", client.known().gone_instances())
        .with("doubtful_leases", client.known().doubtful_leases())
}

pub(crate) fn read_acquired(mut run: Reply, now: Timestamp) -> Result<AcquiredRun, Unreadable> {
    Ok(AcquiredRun {
        start: run.json("start")?,
        head: run.json("head")?,
        fence: run.fence("fence")?,
        inbox_end: run.parsed("inbox_end")?,
        inbox: run.each("inbox", |event| event.into_json("inbox event"))?,
        now,
    })
}
