//! What this replica has pushed and not yet seen the end of.
//!
//! It tells how loaded a worker is between its heartbeats, and which cancellations are ours to pass on. It is a hint
//! only: who holds a job is in the store.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::jobs::Claimed;
use interlock_backend::registry::{REGISTRY_MAX, RegisteredWorker};
use interlock_model::{Fence, JobId, Timestamp, WorkerId};

use crate::choose::Load;

/// Jobs that are remembered at most. Beyond that, a job is pushed and not remembered.
const JOBS_MAX: usize = 100_000;

/// Workers whose ended jobs are remembered. Those that are gone are swept out with the rest.
const ENDED_MAX: usize = 2 * REGISTRY_MAX;

/// A heartbeat made so soon after a push may not count the pushed job yet.
const SETTLING: Duration = Duration::from_secs(1);

/// A job that was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) worker: WorkerId,
    pub(crate) fence: Fence,
    claimed_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Pushed {
    memory: Mutex<Memory>,
    /// Random to this process.
    preferences: RandomState,
}

#[derive(Debug, Default)]
struct Memory {
    jobs: HashMap<JobId, Push>,
    /// Jobs that ended since the worker last spoke, and that it had counted then.
    ended: HashMap<WorkerId, Ended>,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    since: Timestamp,
    jobs: u32,
}

impl Pushed {
    pub(crate) fn remember(&self, claimed: &Claimed) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.jobs.len() < JOBS_MAX {
            let lease = &claimed.lease;
            let push = Push {
                worker: lease.worker.clone(),
                fence: lease.fence,
                claimed_at: lease.claimed_at,
                expires_at: lease.expires_at,
            };
            memory.jobs.insert(claimed.job.id.clone(), push);
        }
    }

    /// The job that was pushed here, if it was.
    pub(crate) fn find(&self, job: &JobId) -> Option<Push> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).jobs.get(job).cloned()
    }

    /// The job never reached its worker.
    pub(crate) fn take_back(&self, job: &JobId) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).jobs.remove(job);
    }

    /// Its worker has told how it ended. Returns whether that makes room that we know of.
    pub(crate) fn ended(&self, job: &JobId, worker: &str) -> bool {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.jobs.get(job).is_none_or(|push| push.worker.as_str() != worker) {
            return false;
        }
        let Some(push) = memory.jobs.remove(job) else { return false };
        if let Some(ended) = memory.ended.get_mut(&push.worker)
            && push.is_counted_at(ended.since)
        {
            ended.jobs += 1;
        }
        true
    }

    /// How loaded these workers are, as they said themselves and as we know better since.
    pub(crate) fn loads(
        &self,
        now: Timestamp,
        workers: &[&RegisteredWorker],
        default_capacity: u32,
    ) -> Vec<Load> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.jobs.retain(|_, push| push.expires_at > now);
        let mut pushed: HashMap<&WorkerId, Vec<&Push>> = HashMap::new();
        for push in memory.jobs.values() {
            pushed.entry(&push.worker).or_default().push(push);
        }
        let mut loads = Vec::with_capacity(workers.len());
        let mut spoken = HashMap::with_capacity(workers.len());
        for known in workers {
            let beat = known.beat.clone().unwrap_or_default();
            // Before its first heartbeat, all that was pushed counts.
            let heard_at = known.beat.as_ref().map_or(Timestamp::ZERO, |_| known.last_seen_at);
            let since = pushed.get(&known.worker).into_iter().flatten();
            let since = since.filter(|push| !push.is_counted_at(heard_at)).count();
            let ended = memory.ended.get(&known.worker).filter(|ended| ended.since == heard_at).copied();
            let ended = ended.unwrap_or(Ended { since: heard_at, jobs: 0 });
            spoken.insert(known.worker.clone(), ended);
            loads.push(Load {
                worker: known.worker.clone(),
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
        memory.ended.extend(spoken);
        loads
    }
}

impl Push {
    /// Whether a heartbeat that was heard then knew of the job.
    fn is_counted_at(&self, heard_at: Timestamp) -> bool {
        self.claimed_at + SETTLING <= heard_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_backend::registry::Beat;
    use interlock_model::RunId;
    use interlock_model::job::{JobLease, NewJob};
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
            meta: interlock_model::meta::JobMeta::default(),
        };
        let lease = JobLease {
            worker: "w".parse().unwrap(),
            fence: Fence::NONE,
            ttl: Duration::from_mins(15),
            expires_at: claimed_at + Duration::from_mins(15),
            claimed_at,
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

    fn load(pushed: &Pushed, worker: &RegisteredWorker) -> (u32, u32) {
        let loads = pushed.loads(worker.last_seen_at, &[worker], 4);
        (loads[0].jobs, loads[0].capacity)
    }

    #[test]
    fn what_was_pushed_since_the_last_heartbeat_counts_until_the_next() {
        let pushed = Pushed::default();
        let heard = worker(Some((1, 8)), at(10));
        pushed.remember(&claimed(1, at(11)));
        pushed.remember(&claimed(2, at(12)));
        assert_eq!(load(&pushed, &heard), (3, 8));
        assert_eq!(load(&pushed, &worker(Some((3, 8)), at(15))), (3, 8));
    }

    #[test]
    fn a_heartbeat_that_crossed_the_push_does_not_clear_it() {
        let pushed = Pushed::default();
        pushed.remember(&claimed(1, at(10)));
        let crossing = worker(Some((0, 1)), at(10) + Duration::from_millis(300));
        assert_eq!(load(&pushed, &crossing), (1, 1));
    }

    #[test]
    fn a_job_that_ended_makes_room_before_the_next_heartbeat() {
        let pushed = Pushed::default();
        let (job, heard) = (claimed(1, at(5)), worker(Some((1, 1)), at(10)));
        pushed.remember(&job);
        assert_eq!(load(&pushed, &heard), (1, 1));
        assert!(!pushed.ended(&job.job.id, "somebody else"));
        assert!(pushed.ended(&job.job.id, "w"));
        assert!(!pushed.ended(&job.job.id, "w"), "it ends once");
        assert_eq!(load(&pushed, &heard), (0, 1));
        // The next heartbeat knows it by itself.
        assert_eq!(load(&pushed, &worker(Some((1, 1)), at(15))), (1, 1));
    }

    #[test]
    fn a_worker_that_has_not_spoken_yet_is_idle_with_the_default_capacity() {
        let pushed = Pushed::default();
        let silent = worker(None, at(10));
        assert_eq!(load(&pushed, &silent), (0, 4));
        pushed.remember(&claimed(1, at(1)));
        assert_eq!(load(&pushed, &silent), (1, 4));
        assert_eq!(load(&pushed, &worker(Some((0, 0)), at(20))), (0, 4), "it does not say how many it takes");
    }

    #[test]
    fn a_job_whose_lease_ran_out_is_forgotten() {
        let pushed = Pushed::default();
        pushed.remember(&claimed(1, at(0)));
        let late = worker(None, at(3_600));
        assert_eq!(load(&pushed, &late), (0, 4));
        assert_eq!(pushed.find(&claimed(1, at(0)).job.id), None);
    }
}
