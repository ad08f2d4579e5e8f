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

/// Pushes and presumed losses that are remembered. A push beyond that counts as confirmed.
const PUSHES_MAX: usize = 100_000;
const PRESUMED_MAX: usize = 10_000;

/// How long an ended job is remembered.
const ENDED_FOR: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    pushes: HashMap<JobId, Push>,
    /// Jobs that ended lately: a result may be seen before its push.
    ended: HashMap<JobId, Instant>,
    /// Steps whose pushes were presumed lost.
    presumed: HashMap<(RunId, StepKey), Presumption>,
    /// Workers that sent the result of a push that was presumed lost: their heartbeats do not count their jobs.
    not_counting: HashSet<WorkerId>,
}

#[derive(Debug)]
struct Push {
    worker: WorkerId,
    tenant: TenantId,
    fence: Fence,
    pushed_at: Instant,
    /// After that it has ended in one way or another.
    until: Instant,
    /// Absent for a push of another replica.
    own: Option<PushState>,
}

/// Pushes of one step to one worker were presumed lost.
#[derive(Debug)]
struct Presumption {
    worker: WorkerId,
    times: u32,
    /// The attempt of the last.
    attempt: u32,
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
        let own = Some(PushState::Unconfirmed { misses: 0, missed_at: None });
        self.memory().add(pushed, worker, (now, until), own);
    }

    /// Whether no further push can be watched.
    pub(crate) fn is_full(&self) -> bool {
        self.memory().pushes.len() >= PUSHES_MAX
    }

    /// A replica has pushed the job. Those of this one are known already.
    pub(crate) fn see_push(&self, pushed: DispatchedJob, worker: WorkerId, (now, until): (Instant, Instant)) {
        let mut memory = self.memory();
        if !memory.pushes.contains_key(&pushed.job) && !memory.ended.contains_key(&pushed.job) {
            memory.add(pushed, worker, (now, until), None);
        }
    }

    /// The job has ended, or was never pushed.
    pub(crate) fn forget(&self, job: &JobId) {
        self.memory().end(job);
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
        let is_known = memory.pushes.get(job).is_some_and(|push| push.worker == *worker);
        memory.end(job);
        if is_known {
            return false;
        }
        let presumed = memory.presumed.get(&(job.run, job.step.clone()));
        let is_late = presumed.is_some_and(|lost| lost.worker == *worker && job.attempt <= lost.attempt);
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
        memory.ended.retain(|_, at| *at + ENDED_FOR > now);
        let Memory { pushes, presumed, not_counting, .. } = &mut *memory;
        let is_counted = |push: &Push| push.worker == *worker && push.pushed_at + settling <= now;
        let outstanding = pushes.values().filter(|push| is_counted(push)).count();
        let are_all_there = jobs_active as usize >= outstanding;
        let mut heard = Heard::default();
        for (job, push) in pushes.iter_mut().filter(|(_, push)| is_counted(push)) {
            let Some(PushState::Unconfirmed { misses, missed_at }) = &mut push.own else { continue };
            let pushed = DispatchedJob { tenant: push.tenant.clone(), job: job.clone(), fence: push.fence };
            if !are_all_there && missed_at.is_none_or(|at| at + settling <= now) {
                (*misses, *missed_at) = (*misses + 1, Some(now));
            }
            let lost = presumed.get(&(job.run, job.step.clone())).filter(|lost| lost.worker == *worker);
            let is_doubtful =
                not_counting.contains(worker) || lost.is_some_and(|lost| lost.times >= PRESUMPTIONS_MAX);
            if are_all_there || *misses >= MISSES_MAX && is_doubtful {
                heard.confirmed.push(pushed);
            } else if *misses >= MISSES_MAX {
                heard.missing.push(pushed);
            }
        }
        heard
    }

    /// What was pushed to the worker, by any replica.
    pub(crate) fn of_worker(&self, worker: &WorkerId) -> Vec<DispatchedJob> {
        self.memory().find(|push| push.worker == *worker)
    }

    pub(crate) fn is_unconfirmed(&self, job: &JobId) -> bool {
        self.memory().pushes.get(job).is_some_and(Push::is_unconfirmed)
    }

    /// The pushes of this replica that may be lost.
    pub(crate) fn unconfirmed(&self) -> Vec<DispatchedJob> {
        self.memory().find(Push::is_unconfirmed)
    }

    /// The lease of the job was extended.
    pub(crate) fn extend(&self, job: &JobId, until: Instant, is_confirmed: bool) {
        if let Some(push) = self.memory().pushes.get_mut(job) {
            push.until = push.until.max(until);
            if let Some(own) = push.own.as_mut().filter(|_| is_confirmed) {
                *own = PushState::Confirmed;
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
        let step = (job.run, job.step.clone());
        let before = memory.presumed.remove(&step).filter(|lost| lost.worker == push.worker);
        let times = before.map_or(0, |lost| lost.times) + 1;
        memory.presumed.insert(step, Presumption { worker: push.worker, times, attempt: job.attempt });
    }
}

impl Push {
    /// Whether it is of this replica and may be lost.
    fn is_unconfirmed(&self) -> bool {
        self.own.is_some_and(|own| own != PushState::Confirmed)
    }
}

impl Memory {
    fn add(
        &mut self,
        pushed: DispatchedJob,
        worker: WorkerId,
        (pushed_at, until): (Instant, Instant),
        own: Option<PushState>,
    ) {
        let DispatchedJob { tenant, job, fence } = pushed;
        if self.pushes.len() < PUSHES_MAX {
            self.pushes.insert(job, Push { worker, tenant, fence, pushed_at, until, own });
        }
    }

    fn end(&mut self, job: &JobId) {
        self.pushes.remove(job);
        if self.ended.len() < PUSHES_MAX {
            self.ended.insert(job.clone(), Instant::now());
        }
    }

    fn find(&self, matches: impl Fn(&Push) -> bool) -> Vec<DispatchedJob> {
        let matching = self.pushes.iter().filter(|(_, push)| matches(push));
        let found = matching.map(|(job, push)| {
            let Push { tenant, fence, .. } = push;
            DispatchedJob { tenant: tenant.clone(), job: job.clone(), fence: *fence }
        });
        found.collect()
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
        known.see_push(job(1), worker(), (now, now + LEASE));
        known.see_push(job(2), worker(), (now, now + LEASE));
        let heard = third(&known, 1, now);
        assert_eq!(heard, Heard { confirmed: vec![], missing: vec![job(1)] });
        let heard = known.hear(&worker(), 2, now + 4 * SETTLING, SETTLING);
        assert_eq!(heard, Heard { confirmed: vec![job(1)], missing: vec![] });
        known.extend(&job(1).job, now + LEASE, true);
        let heard = known.hear(&worker(), 0, now + 5 * SETTLING, SETTLING);
        assert_eq!(heard, Heard::default(), "it stays confirmed");
    }

    #[tokio::test]
    async fn a_push_that_is_seen_after_its_result_is_not_outstanding() {
        let (known, now) = (Confirmations::default(), Instant::now());
        known.see_result(&job(1).job, &worker());
        known.see_push(job(1), worker(), (now, now + LEASE));
        assert_eq!(known.of_worker(&worker()), []);
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (known, now) = (Confirmations::default(), Instant::now());
        for attempt in 0..=u32::try_from(PUSHES_MAX).unwrap() {
            assert_eq!(known.is_full(), attempt as usize == PUSHES_MAX);
            known.push(job(attempt), worker(), (now, now + LEASE));
        }
        assert_eq!(known.unconfirmed().len(), PUSHES_MAX);
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
        let other = Confirmations::default();
        other.push(job(1), worker(), (now, now + LEASE));
        other.presume_lost(&job(1).job);
        assert!(!other.see_result(&job(2).job, &worker()), "the result of a later dispatch shows nothing");
        known.push(job(2), worker(), (now, now + LEASE));
        assert_eq!(third(&known, 0, now).confirmed, [job(2)]);
        known.forget_worker(&worker());
        known.push(job(3), worker(), (now, now + LEASE));
        assert_eq!(third(&known, 0, now).missing, [job(3)]);
    }
}
