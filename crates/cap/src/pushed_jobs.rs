//! The jobs that this replica has pushed and that have not ended.
//!
//! They show how loaded a worker is between its heartbeats, and which cancellations this replica sends. They are only a
//! hint: the store knows which worker has a job.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_backend::jobs::Claimed;
use interlock_backend::registry::{REGISTRY_MAX, RegisteredWorker};
use interlock_model::job::JobLease;
use interlock_model::{JobId, Timestamp, WorkerId};

use crate::choose::Load;

/// Jobs that are remembered at most. A further one is pushed and not remembered.
const JOBS_MAX: usize = 100_000;

/// Workers whose ended jobs are remembered. Beyond that, all are forgotten, missing workers among them.
const ENDED_MAX: usize = 2 * REGISTRY_MAX;

/// A heartbeat within this time after a push may not count the pushed job yet.
const SETTLING: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct PushedJobs {
    memory: Mutex<PushMemory>,
    /// Random to this process.
    preferences: RandomState,
}

#[derive(Debug, Default)]
struct PushMemory {
    jobs: HashMap<JobId, JobLease>,
    /// Jobs that ended since the worker's last heartbeat, which counted them.
    ended: HashMap<WorkerId, EndedJobs>,
}

#[derive(Debug, Clone, Copy)]
struct EndedJobs {
    since: Timestamp,
    jobs: u32,
}

impl PushedJobs {
    fn memory(&self) -> MutexGuard<'_, PushMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remember(&self, claimed: &Claimed) {
        let mut memory = self.memory();
        if memory.jobs.len() < JOBS_MAX {
            memory.jobs.insert(claimed.job.id.clone(), claimed.lease.clone());
        }
    }

    /// Its lease was extended.
    pub(crate) fn extend(&self, job: &JobId, expires_at: Timestamp) {
        if let Some(lease) = self.memory().jobs.get_mut(job) {
            lease.expires_at = expires_at;
        }
    }

    pub(crate) fn find(&self, job: &JobId) -> Option<JobLease> {
        self.memory().jobs.get(job).cloned()
    }

    /// The job never reached its worker.
    pub(crate) fn forget(&self, job: &JobId) {
        self.memory().jobs.remove(job);
    }

    /// Its worker has sent a result. Returns whether that makes room for another job.
    pub(crate) fn end(&self, job: &JobId, worker: &str) -> bool {
        let mut memory = self.memory();
        if memory.jobs.get(job).is_none_or(|lease| lease.worker.as_str() != worker) {
            return false;
        }
        let Some(lease) = memory.jobs.remove(job) else { return false };
        if let Some(ended) = memory.ended.get_mut(&lease.worker)
            && is_counted(&lease, ended.since)
        {
            ended.jobs += 1;
        }
        true
    }

    /// The loads of these workers: their heartbeats, corrected by what was pushed and what has ended since.
    pub(crate) fn loads<'a>(
        &self,
        now: Timestamp,
        workers: &[&'a RegisteredWorker],
        default_capacity: u32,
    ) -> Vec<Load<'a>> {
        let mut memory = self.memory();
        memory.jobs.retain(|_, lease| lease.expires_at > now);
        let mut pushed: HashMap<&WorkerId, Vec<&JobLease>> = HashMap::new();
        for lease in memory.jobs.values() {
            pushed.entry(&lease.worker).or_default().push(lease);
        }
        let mut loads = Vec::with_capacity(workers.len());
        let mut ended_since = HashMap::with_capacity(workers.len());
        for &known in workers {
            let beat = known.beat.clone().unwrap_or_default();
            // Before its first heartbeat, all that was pushed counts.
            let heard_at = known.beat.as_ref().map_or(Timestamp::ZERO, |_| known.last_seen_at);
            let since = pushed.get(&known.worker).into_iter().flatten();
            let since = since.filter(|lease| !is_counted(lease, heard_at)).count();
            let ended = memory.ended.get(&known.worker).filter(|ended| ended.since == heard_at).copied();
            let ended = ended.unwrap_or(EndedJobs { since: heard_at, jobs: 0 });
            ended_since.insert(known.worker.clone(), ended);
            loads.push(Load {
                worker: known,
                jobs: beat
                    .jobs_active
                    .saturating_sub(ended.jobs)
                    .saturating_add(u32::try_from(since).unwrap_or(u32::MAX)),
                capacity: if beat.jobs_max == 0 { default_capacity } else { beat.jobs_max },
                preference: self.preferences.hash_one(known.worker.as_str()),
            });
        }
        if memory.ended.len() > ENDED_MAX {
            memory.ended.clear();
        }
        memory.ended.extend(ended_since);
        loads
    }
}

/// Whether a heartbeat that arrived then counted the job.
fn is_counted(lease: &JobLease, heard_at: Timestamp) -> bool {
    lease.claimed_at + SETTLING <= heard_at
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_backend::registry::Beat;
    use interlock_model::job::NewJob;
    use interlock_model::{Fence, RunId};
    use serde_json::Value;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + seconds * 1_000)
    }

    fn claimed(attempt: u32, claimed_at: Timestamp) -> Claimed {
        let run = RunId::new(Timestamp::ZERO, [7; 10]);
        let id = format!("{run}:step@{attempt}").parse().unwrap();
        let job = NewJob {
            id,
            workflow: "flow".parse().unwrap(),
            topic: "topic".parse().unwrap(),
            input: Value::Null,
            deadline_at: None,
            timeout: None,
            queue_until: None,
            meta: interlock_model::meta::JobMeta::default(),
            budget: None,
            trace: None,
        };
        let lease = JobLease {
            worker: "w".parse().unwrap(),
            fence: Fence::NONE,
            ttl: Duration::from_mins(15),
            expires_at: claimed_at + Duration::from_mins(15),
            claimed_at,
            deadline_at: None,
            edge: Some(interlock_model::scheduling::Edge::Nats),
        };
        Claimed { job, lease, queued_at: claimed_at }
    }

    fn worker(beat: Option<(u32, u32)>, last_seen_at: Timestamp) -> RegisteredWorker {
        let beat = beat.map(|(jobs_active, jobs_max)| Beat { jobs_active, jobs_max, ..Beat::default() });
        RegisteredWorker {
            worker: "w".parse().unwrap(),
            handshake: None,
            beat,
            last_seen_at,
            is_draining: false,
        }
    }

    fn load(pushed: &PushedJobs, worker: &RegisteredWorker) -> (u32, u32) {
        let loads = pushed.loads(worker.last_seen_at, &[worker], 4);
        (loads[0].jobs, loads[0].capacity)
    }

    #[test]
    fn a_job_pushed_since_the_last_heartbeat_counts_until_the_next() {
        let pushed = PushedJobs::default();
        let heard = worker(Some((1, 8)), at(10));
        pushed.remember(&claimed(1, at(11)));
        pushed.remember(&claimed(2, at(12)));
        assert_eq!(load(&pushed, &heard), (3, 8));
        assert_eq!(load(&pushed, &worker(Some((3, 8)), at(15))), (3, 8));
    }

    #[test]
    fn a_heartbeat_that_crossed_the_push_does_not_clear_it() {
        let pushed = PushedJobs::default();
        pushed.remember(&claimed(1, at(10)));
        let crossing = worker(Some((0, 1)), at(10) + Duration::from_millis(300));
        assert_eq!(load(&pushed, &crossing), (1, 1));
    }

    #[test]
    fn a_job_that_ended_makes_room_before_the_next_heartbeat() {
        let pushed = PushedJobs::default();
        let (job, heard) = (claimed(1, at(5)), worker(Some((1, 1)), at(10)));
        pushed.remember(&job);
        assert_eq!(load(&pushed, &heard), (1, 1));
        assert!(!pushed.end(&job.job.id, "another worker"));
        assert!(pushed.end(&job.job.id, "w"));
        assert!(!pushed.end(&job.job.id, "w"), "it ends once");
        assert_eq!(load(&pushed, &heard), (0, 1));
        // The next heartbeat counts by itself.
        assert_eq!(load(&pushed, &worker(Some((1, 1)), at(15))), (1, 1));
    }

    #[test]
    fn a_worker_without_a_heartbeat_is_idle_with_the_default_capacity() {
        let pushed = PushedJobs::default();
        let silent = worker(None, at(10));
        assert_eq!(load(&pushed, &silent), (0, 4));
        pushed.remember(&claimed(1, at(1)));
        assert_eq!(load(&pushed, &silent), (1, 4));
        assert_eq!(load(&pushed, &worker(Some((0, 0)), at(20))), (0, 4), "its heartbeat has no capacity");
    }

    #[test]
    fn a_job_whose_lease_has_expired_is_forgotten() {
        let pushed = PushedJobs::default();
        pushed.remember(&claimed(1, at(0)));
        let late = worker(None, at(3_600));
        assert_eq!(load(&pushed, &late), (0, 4));
        assert_eq!(pushed.find(&claimed(1, at(0)).job.id), None);
    }
}
