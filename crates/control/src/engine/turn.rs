//! One turn of one run: read, decide, write once, wake.

use std::collections::BTreeMap;

use interlock_backend::runs::{Commit, Taken};
use interlock_backend::{StoreError, Wake};
use interlock_model::run::Run;
use interlock_model::run::advance::{Advance, Command, advance_telling};
use interlock_model::{RunId, StepKey, TenantId, Topic};
use tracing::{error, warn};

use super::Asked;
use super::arrivals::Arrivals;
use crate::deliveries::Delivery;
use crate::journal;
use crate::locks::{Lease as _, RunLock};
use crate::service::Control;

impl Control {
    /// Advances a run that was taken, perhaps with a result, and lets go of it. Whether more has come for it meanwhile.
    pub(super) async fn turn(
        &self,
        taken: Taken,
        asked: Asked,
        delivery: Option<&Delivery>,
    ) -> Result<bool, StoreError> {
        let lock = RunLock::of(self, &taken, asked);
        let arrivals = Arrivals::of(&taken, asked, delivery);
        let (tenant, run) = (taken.start.tenant.clone(), taken.start.run);
        match lock.guard(self.try_turn(taken)).await {
            Ok(Ok(has_more)) => {
                arrivals.settled(&self.contention);
                Ok(has_more)
            }
            // Somebody else has the run: what we decided is void, and what they do is right.
            Ok(Err(StoreError::Fenced { .. } | StoreError::NotFound { .. })) => Ok(false),
            Ok(Err(error)) => {
                // The lease would end by itself, later. Failing at this, too, changes nothing.
                lock.release().await;
                Err(error)
            }
            Err(loss) => {
                warn!(%tenant, %run, %loss, "a turn was dropped; whoever has the run next makes it");
                Ok(false)
            }
        }
    }

    async fn try_turn(&self, taken: Taken) -> Result<bool, StoreError> {
        let trace = self.turn_trace(&taken);
        let Taken { start, head, inbox, inbox_end, fence, now } = taken;
        let (tenant, id, version) = (start.tenant.clone(), start.run, head.version);
        let pinned = self.workflow_version(&tenant, &start.workflow, start.workflow_version).await?;
        let workflow = pinned.ok_or_else(|| StoreError::not_found("workflow", &start.workflow))?;
        let steps = self.steps(&tenant, id, version).await?;
        let waits = self.waits_timing_out(&tenant, &steps, now).await;
        let run = Run { start, head, steps };
        let advanced = advance_telling(&workflow, run, &inbox, (now, &waits)).map_err(|illegal| {
            error!(%tenant, run = %id, %illegal, "the rules do not know this transition");
            StoreError::Conflict(format!("run {id} cannot advance: {illegal}"))
        })?;
        let steps = advanced.run.steps.clone();
        let mut commit = commit_of(advanced, (tenant.clone(), id), (fence, version, inbox_end));
        commit.letters_max = self.settings.dead_letters_max;
        commit.held = self.hold_back(&tenant, &mut commit.dispatched);
        let has_held = !commit.held.is_empty();
        let is_final = commit.head.status.is_final();
        let dispatched: Vec<Topic> = commit.dispatched.iter().map(|job| job.topic.clone()).collect();
        let revoked = commit.revoked.clone();
        let told = journal::Turn::of(&commit);
        let committed = self.store.commit(commit).await?;
        told.committed();
        trace.committed(&told);
        if !is_final {
            self.cached_runs.keep(id, committed.version, steps);
        }
        self.announce_jobs(&tenant, dispatched);
        if has_held {
            self.wake(Wake::JobsHeld { tenant });
        }
        if !revoked.is_empty() {
            self.wake(Wake::JobsRevoked { jobs: revoked });
        }
        self.wake(Wake::RunChanged { run: id });
        Ok(committed.has_more)
    }

    pub(super) async fn steps(
        &self,
        tenant: &TenantId,
        run: RunId,
        version: u64,
    ) -> Result<BTreeMap<StepKey, interlock_model::step::StepRun>, StoreError> {
        if let Some(steps) = self.cached_runs.take(run, version) {
            return Ok(steps);
        }
        let found = self.store.run(tenant, run).await?;
        // What was read may be newer than what was taken only if the lease was lost; the commit tells.
        found.map(|run| run.steps).ok_or_else(|| StoreError::not_found("run", run))
    }

    /// Wakes a worker for each job, topic by topic.
    pub(crate) fn announce_jobs(&self, tenant: &TenantId, dispatched: Vec<Topic>) {
        let mut waiting: BTreeMap<Topic, u32> = BTreeMap::new();
        for topic in dispatched {
            *waiting.entry(topic).or_default() += 1;
        }
        for (topic, jobs) in waiting {
            self.wake(Wake::JobsReady { tenant: tenant.clone(), topic, jobs });
        }
    }
}

fn commit_of(
    advanced: Advance,
    (tenant, run): (TenantId, RunId),
    (fence, version, inbox_end): (interlock_model::Fence, u64, u64),
) -> Commit {
    let Advance { run: after, changed, commands, events } = advanced;
    let steps = changed.into_iter().filter_map(|key| after.steps.get(&key).cloned().map(|step| (key, step)));
    let mut commit = Commit {
        tenant,
        run,
        fence,
        version,
        steps: steps.collect(),
        head: after.head,
        inbox_end,
        events,
        dispatched: Vec::new(),
        held: Vec::new(),
        revoked: Vec::new(),
        approvals_opened: Vec::new(),
        approvals_withdrawn: Vec::new(),
        buried: Vec::new(),
        letters_max: u32::MAX,
    };
    for command in commands {
        match command {
            Command::Dispatch(job) => commit.dispatched.push(job),
            Command::Revoke(job) => commit.revoked.push(job),
            Command::OpenApproval(approval) => commit.approvals_opened.push(approval),
            Command::WithdrawApproval(job) => commit.approvals_withdrawn.push(job),
            Command::BuryJob(letter) => commit.buried.push(letter),
        }
    }
    commit
}
