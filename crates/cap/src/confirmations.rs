//! Whether pushed jobs have reached their workers.
//!
//! NATS forgets a push whose worker is not connected. The heartbeats of a worker say how many jobs it has: while that is
//! less than what was pushed to it, some push may have been lost. Every replica sees every push, every result and every
//! heartbeat, and decides about its own pushes.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_model::{Fence, JobId, RunId, StepKey, TenantId, WorkerId};
use tokio::time::Instant;

use crate::push::DispatchedJob;

/// Heartbeats in a row that do not count a push until it is presumed lost.
const MISSES_MAX: u32 = 3;

/// How often the pushes of one step to one worker are presumed lost. A worker that does not count its jobs must not have
/// a step taken from it again and again.
const PRESUMPTIONS_MAX: u32 = 3;

/// Pushes, presumed losses and workers that are remembered; further ones are not watched.
const PUSHES_MAX: usize = 100_000;
const PRESUMED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    pushes: HashMap<JobId, Push>,
    /// Steps whose pushes were presumed lost, and how often, by the worker that they were pushed to.
    presumed: HashMap<(RunId, StepKey), (WorkerId, u32)>,
    /// Workers that sent the result of a push that was presumed lost: their heartbeats do not count their jobs.
    not_counting: HashSet<WorkerId>,
}

#[derive(Debug)]
struct Push {
    worker: WorkerId,
    pushed_at: Instant,
    /// After that it has ended in one way or another.
    until: Instant,
    /// Absent for a push of another replica.
    own: Option<OwnPush>,
}

#[derive(Debug)]
struct OwnPush {
    tenant: TenantId,
    fence: Fence,
    state: PushState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushState {
    Unconfirmed {
        misses: u32,
        /// When the last miss was counted.
        missed_at: Option<Instant>,
    },
    Confirmed,
}

/// What a heartbeat says about pushes of this replica.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// These have reached their worker, as far as can be known.
    pub(crate) confirmed: Vec<DispatchedJob>,
    /// These have not.
    pub(crate) missing: Vec<DispatchedJob>,
}

impl Confirmations {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This replica pushes the job.
    pub(crate) fn push(&self, pushed: DispatchedJob, worker: WorkerId, (now, until): (Instant, Instant)) {
        let DispatchedJob { tenant, job, fence } = pushed;
        let state = PushState::Unconfirmed { misses: 0, missed_at: None };
        let own = Some(OwnPush { tenant, fence, state });
        self.memory().add(job, Push { worker, pushed_at: now, until, own });
    }

    /// A replica has pushed the job. Those of this one are known already.
    pub(crate) fn see_push(&self, job: JobId, worker: WorkerId, (now, until): (Instant, Instant)) {
        let mut memory = self.memory();
        if !memory.pushes.contains_key(&job) {
            memory.add(job, Push { worker, pushed_at: now, until, own: None });
        }
    }

    /// The job has ended, or was never pushed.
    pub(crate) fn forget(&self, job: &JobId) {
        self.memory().pushes.remove(job);
    }

    /// The worker has lost its jobs, or starts again.
    pub(crate) fn forget_worker(&self, worker: &WorkerId) {
        let mut memory = self.memory();
        memory.pushes.retain(|_, push| push.worker != *worker);
        memory.not_counting.remove(worker);
    }

    /// The worker has sent a result. Returns whether that shows for the first time that its heartbeats do not count.
    pub(crate) fn see_result(&self, job: &JobId, worker: &WorkerId) -> bool {
        let mut memory = self.memory();
        if memory.pushes.get(job).is_some_and(|push| push.worker == *worker) {
            memory.pushes.remove(job);
            return false;
        }
        let presumed = memory.presumed.get(&(job.run, job.step.clone()));
        let is_late = presumed.is_some_and(|(of, _)| of == worker);
        is_late && memory.not_counting.insert(worker.clone())
    }

    /// A heartbeat. A push may be on its way for `settling`, and no more than one miss counts in that time.
    pub(crate) fn hear(
        &self,
        worker: &WorkerId,
        jobs_active: u32,
        now: Instant,
        settling: Duration,
    ) -> Heard {
        let mut memory = self.memory();
        memory.pushes.retain(|_, push| push.until > now);
        let Memory { pushes, presumed, not_counting } = &mut *memory;
        let is_counted = |push: &Push| push.worker == *worker && push.pushed_at + settling <= now;
        let outstanding = pushes.values().filter(|push| is_counted(push)).count();
        let are_all_there = jobs_active as usize >= outstanding;
        let mut heard = Heard::default();
        for (job, push) in pushes.iter_mut().filter(|(_, push)| is_counted(push)) {
            let Some(own) = &mut push.own else { continue };
            let PushState::Unconfirmed { misses, missed_at } = &mut own.state else { continue };
            let pushed = DispatchedJob { tenant: own.tenant.clone(), job: job.clone(), fence: own.fence };
            if !are_all_there && missed_at.is_none_or(|at| at + settling <= now) {
                (*misses, *missed_at) = (*misses + 1, Some(now));
            }
            let presumptions = presumed.get(&(job.run, job.step.clone())).filter(|(of, _)| of == worker);
            let is_doubtful = not_counting.contains(worker)
                || presumptions.is_some_and(|(_, times)| *times >= PRESUMPTIONS_MAX);
            if are_all_there || *misses >= MISSES_MAX && is_doubtful {
                heard.confirmed.push(pushed);
            } else if *misses >= MISSES_MAX {
                heard.missing.push(pushed);
            }
        }
        heard
    }

    /// The pushes of this replica to the worker of this one, itself included.
    pub(crate) fn of_same_worker(&self, job: &JobId) -> Vec<DispatchedJob> {
        let memory = self.memory();
        let Some(worker) = memory.pushes.get(job).map(|push| &push.worker) else { return Vec::new() };
        memory.own(|push| push.worker == *worker)
    }

    pub(crate) fn is_unconfirmed(&self, job: &JobId) -> bool {
        let memory = self.memory();
        let own = memory.pushes.get(job).and_then(|push| push.own.as_ref());
        own.is_some_and(|own| own.state != PushState::Confirmed)
    }

    /// The pushes of this replica that may be lost.
    pub(crate) fn unconfirmed(&self) -> Vec<DispatchedJob> {
        self.memory().own(|push| push.own.as_ref().is_some_and(|own| own.state != PushState::Confirmed))
    }

    /// The lease of the job was extended.
    pub(crate) fn extend(&self, job: &JobId, until: Instant, is_confirmed: bool) {
        if let Some(push) = self.memory().pushes.get_mut(job) {
            push.until = push.until.max(until);
            if let Some(own) = push.own.as_mut().filter(|_| is_confirmed) {
                own.state = PushState::Confirmed;
            }
        }
    }

    /// The push is presumed lost, and its job dispatched again.
    pub(crate) fn presume_lost(&self, job: &JobId) {
        let mut memory = self.memory();
        let Some(push) = memory.pushes.remove(job) else { return };
        if memory.presumed.len() >= PRESUMED_MAX {
            memory.presumed.clear();
        }
        let known = memory.presumed.entry((job.run, job.step.clone())).or_insert((push.worker.clone(), 0));
        *known = if known.0 == push.worker { (push.worker, known.1 + 1) } else { (push.worker, 1) };
    }
}

impl Memory {
    fn add(&mut self, job: JobId, push: Push) {
        if self.pushes.len() < PUSHES_MAX {
            self.pushes.insert(job, push);
        }
    }

    fn own(&self, matches: impl Fn(&Push) -> bool) -> Vec<DispatchedJob> {
        let matching = self.pushes.iter().filter(|(_, push)| matches(push));
        let own = matching.filter_map(|(job, push)| {
            let own = push.own.as_ref()?;
            Some(DispatchedJob { tenant: own.tenant.clone(), job: job.clone(), fence: own.fence })
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use interlock_model::Timestamp;

    use super::*;

    const SETTLING: Duration = Duration::from_secs(1);
    const LEASE: Duration = Duration::from_mins(1);

    fn job(attempt: u32) -> DispatchedJob {
        let run = RunId::new(Timestamp::ZERO, [7; 10]);
        let job = JobId { run, step: "step".parse().unwrap(), attempt };
        DispatchedJob { tenant: "acme".parse().unwrap(), job, fence: Fence::NONE }
    }

    fn worker() -> WorkerId {
        "w".parse().unwrap()
    }

    /// What the worker's third heartbeat says that counts this many jobs.
    fn third(known: &Confirmations, jobs: u32, from: Instant) -> Heard {
        for second in 1..3 {
            assert_eq!(known.hear(&worker(), jobs, from + second * SETTLING, SETTLING).missing, []);
        }
        known.hear(&worker(), jobs, from + 3 * SETTLING, SETTLING)
    }

    #[tokio::test]
    async fn a_push_is_confirmed_once_heartbeats_count_those_of_all_replicas() {
        let (known, now) = (Confirmations::default(), Instant::now());
        known.push(job(1), worker(), (now, now + LEASE));
        known.see_push(job(1).job, worker(), (now, now + LEASE));
        known.see_push(job(2).job, worker(), (now, now + LEASE));
        let heard = third(&known, 1, now);
        assert_eq!(heard, Heard { confirmed: vec![], missing: vec![job(1)] });
        let heard = known.hear(&worker(), 2, now + 4 * SETTLING, SETTLING);
        assert_eq!(heard, Heard { confirmed: vec![job(1)], missing: vec![] });
        known.extend(&job(1).job, now + LEASE, true);
        let heard = known.hear(&worker(), 0, now + 5 * SETTLING, SETTLING);
        assert_eq!(heard, Heard::default(), "it stays confirmed");
    }

    #[tokio::test]
    async fn heartbeats_that_come_fast_count_as_one() {
        let (known, now) = (Confirmations::default(), Instant::now());
        known.push(job(1), worker(), (now, now + LEASE));
        for millis in 0..1_900 {
            let heard = known.hear(&worker(), 0, now + Duration::from_millis(millis), SETTLING);
            assert_eq!(heard, Heard::default());
        }
    }

    #[tokio::test]
    async fn a_step_is_taken_from_one_worker_only_a_few_times() {
        let (known, mut now) = (Confirmations::default(), Instant::now());
        for attempt in 1..=PRESUMPTIONS_MAX {
            known.push(job(attempt), worker(), (now, now + LEASE));
            assert_eq!(third(&known, 0, now).missing, [job(attempt)]);
            known.presume_lost(&job(attempt).job);
            now += LEASE;
        }
        known.push(job(9), worker(), (now, now + LEASE));
        assert_eq!(third(&known, 0, now).confirmed, [job(9)]);
    }

    #[tokio::test]
    async fn a_worker_that_reports_what_it_did_not_count_is_believed_until_it_restarts() {
        let (known, now) = (Confirmations::default(), Instant::now());
        known.push(job(1), worker(), (now, now + LEASE));
        known.presume_lost(&job(1).job);
        assert!(known.see_result(&job(1).job, &worker()));
        assert!(!known.see_result(&job(1).job, &worker()), "it is news once");
        known.push(job(2), worker(), (now, now + LEASE));
        assert_eq!(third(&known, 0, now).confirmed, [job(2)]);
        known.forget_worker(&worker());
        known.push(job(3), worker(), (now, now + LEASE));
        assert_eq!(third(&known, 0, now).missing, [job(3)]);
    }
}
