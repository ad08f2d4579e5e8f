//! Why a job waits in its queue. Every explanation of a wait uses this function.

use serde::{Deserialize, Serialize};

use super::{LiveWorker, Load, Pools};
use crate::WorkerId;
use crate::job::NewJob;

crate::named_enum! {
    /// What a queued job waits for.
    pub enum WaitReason {
        /// No online worker serves its topic.
        NoWorker = "no_worker",
        /// No worker of its topic has all required capabilities.
        Capability = "capability",
        /// All suitable workers are draining.
        Draining = "draining",
        /// All suitable workers are at capacity.
        Saturated = "saturated",
        /// A suitable worker has capacity, so the job goes next or waits for those before it.
        Turn = "turn",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFor {
    pub reason: WaitReason,
    /// The reason as a sentence.
    pub detail: String,
    /// Jobs before it in its queue.
    pub position: usize,
    /// Suitable workers that are not draining.
    pub workers: usize,
}

impl WaitingFor {
    /// Explains the wait by the online workers that serve the job's tenant.
    pub fn judge(job: &NewJob, position: usize, workers: &[LiveWorker], pools: &Pools) -> Self {
        let serving: Vec<_> = workers.iter().filter(|worker| worker.topics.contains(&job.topic)).collect();
        let admitted = |worker: &&&LiveWorker| {
            pools.admit(&job.topic, worker.edge, worker.pool.as_deref(), &worker.capabilities)
        };
        let admitted: Vec<_> = serving.iter().filter(admitted).copied().collect();
        let kind = job.kind();
        let capable: Vec<_> =
            admitted.iter().filter(|worker| kind.fits(&worker.capabilities)).copied().collect();
        let taking: Vec<_> = capable.iter().filter(|worker| !worker.is_draining).copied().collect();
        let has_room = taking.iter().any(|worker| worker.load.is_some_and(Load::has_room));
        let (reason, detail) = if admitted.is_empty() {
            (WaitReason::NoWorker, no_worker(job, serving.len(), pools))
        } else if capable.is_empty() {
            (WaitReason::Capability, incapable(job, &admitted))
        } else if taking.is_empty() {
            (WaitReason::Draining, all_are(capable.len(), "draining"))
        } else if has_room {
            (WaitReason::Turn, turn(position))
        } else {
            let is_known = taking.iter().any(|worker| worker.load.is_some());
            let detail = if is_known { all_are(taking.len(), "busy") } else { not_claiming(taking.len()) };
            (WaitReason::Saturated, detail)
        };
        Self { reason, detail, position, workers: taking.len() }
    }
}

/// What a job waits for that was pushed to a worker which is not known to have it.
pub fn awaited_confirmation(worker: &WorkerId) -> String {
    format!("it was pushed to worker {worker}, whose heartbeats have not confirmed it yet")
}

fn no_worker(job: &NewJob, serving: usize, pools: &Pools) -> String {
    let topic = &job.topic;
    if serving == 0 {
        return format!("no online worker serves topic `{topic}`");
    }
    let named: Vec<&str> = pools.of(topic).map(|(name, _)| name).collect();
    let who = workers_serve(serving);
    if named.is_empty() {
        return format!("{who} topic `{topic}`, but only in pools for other topics");
    }
    format!("{who} topic `{topic}`, but not in the required pool ({})", named.join(", "))
}

fn incapable(job: &NewJob, serving: &[&LiveWorker]) -> String {
    let kind = job.kind();
    let lacking = serving.iter().map(|worker| kind.missing(&worker.capabilities)).min_by_key(Vec::len);
    let lacking = lacking.unwrap_or_default().join(", ");
    format!("{} topic `{}`; the closest match lacks {lacking}", workers_serve(serving.len()), job.topic)
}

fn turn(position: usize) -> String {
    match position {
        0 => "it is next in its queue".to_owned(),
        1 => "1 job is ahead of it in its queue".to_owned(),
        jobs => format!("{jobs} jobs are ahead of it in its queue"),
    }
}

fn workers_serve(workers: usize) -> String {
    if workers == 1 { "1 worker serves".to_owned() } else { format!("{workers} workers serve") }
}

/// HTTP workers do not report their load, but they stop claiming when they are busy.
fn not_claiming(workers: usize) -> String {
    match workers {
        1 => "the only suitable worker is not claiming jobs".to_owned(),
        workers => format!("none of the {workers} suitable workers is claiming jobs"),
    }
}

fn all_are(workers: usize, state: &str) -> String {
    match workers {
        1 => format!("the only suitable worker is {state}"),
        workers => format!("all {workers} suitable workers are {state}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Edge, Pool};
    use super::*;
    use crate::meta::JobMeta;
    use crate::{RunId, Timestamp};

    fn job(requires: &[&str]) -> NewJob {
        let requires = requires.iter().map(|tag| tag.parse().unwrap()).collect();
        NewJob {
            id: format!("{}:step@1", RunId::new(Timestamp::ZERO, [7; 10])).parse().unwrap(),
            workflow: "flow".parse().unwrap(),
            topic: "build".parse().unwrap(),
            input: serde_json::Value::Null,
            deadline_at: None,
            timeout: None,
            queue_until: None,
            meta: JobMeta { requires, ..JobMeta::default() },
            budget: None,
            trace: None,
        }
    }

    fn worker(topic: &str, capabilities: &[&str], load: Option<(u32, u32)>) -> LiveWorker {
        LiveWorker {
            worker: "w".parse().unwrap(),
            edge: if load.is_some() { Edge::Nats } else { Edge::Http },
            topics: vec![topic.parse().unwrap()],
            capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
            pool: None,
            is_draining: false,
            load: load.map(|(jobs, jobs_max)| Load { jobs, jobs_max }),
        }
    }

    fn judged(requires: &[&str], workers: &[LiveWorker]) -> (WaitReason, usize) {
        let found = WaitingFor::judge(&job(requires), 3, workers, &Pools::default());
        assert_eq!(found.position, 3);
        assert!(!found.detail.is_empty());
        (found.reason, found.workers)
    }

    #[test]
    fn without_a_worker_for_its_topic_a_job_waits_for_one() {
        assert_eq!(judged(&[], &[]), (WaitReason::NoWorker, 0));
        assert_eq!(judged(&[], &[worker("test", &[], Some((0, 4)))]), (WaitReason::NoWorker, 0));
    }

    #[test]
    fn capabilities_that_no_single_worker_has_are_missing() {
        let halves = [worker("build", &["gpu"], Some((0, 4))), worker("build", &["linux"], None)];
        assert_eq!(judged(&["gpu", "linux"], &halves), (WaitReason::Capability, 0));
        assert_eq!(judged(&["gpu"], &halves), (WaitReason::Turn, 1));
        let found = WaitingFor::judge(&job(&["gpu", "arm"]), 0, &halves, &Pools::default());
        assert_eq!(found.detail, "2 workers serve topic `build`; the closest match lacks arm");
    }

    #[test]
    fn a_draining_worker_does_not_count_and_a_busy_one_does() {
        let draining = LiveWorker { is_draining: true, ..worker("build", &[], Some((0, 4))) };
        assert_eq!(judged(&[], std::slice::from_ref(&draining)), (WaitReason::Draining, 0));
        let full = worker("build", &[], Some((4, 4)));
        assert_eq!(judged(&[], &[draining, full.clone()]), (WaitReason::Saturated, 1));
        // An HTTP worker with capacity would claim.
        let silent = worker("build", &[], None);
        assert_eq!(judged(&[], &[full.clone(), silent.clone()]), (WaitReason::Saturated, 2));
        let detail = |worker| WaitingFor::judge(&job(&[]), 0, &[worker], &Pools::default()).detail;
        assert_eq!(detail(full), "the only suitable worker is busy");
        assert_eq!(detail(silent), "the only suitable worker is not claiming jobs");
    }

    #[test]
    fn with_capacity_a_job_waits_for_its_turn() {
        assert_eq!(judged(&[], &[worker("build", &[], Some((3, 4)))]), (WaitReason::Turn, 1));
        assert_eq!(turn(0), "it is next in its queue");
        assert_eq!(turn(12), "12 jobs are ahead of it in its queue");
    }

    #[test]
    fn a_worker_outside_the_pool_does_not_count() {
        let pool =
            Pool { topics: ["build".parse().unwrap()].into(), requires: ["gpu".parse().unwrap()].into() };
        let pools = Pools::new([("large".to_owned(), pool)].into());
        let outside = worker("build", &["gpu"], Some((0, 4)));
        let inside = LiveWorker { pool: Some("large".to_owned()), ..outside.clone() };
        let judge = |workers: &[LiveWorker]| WaitingFor::judge(&job(&[]), 0, workers, &pools).reason;
        assert_eq!(judge(std::slice::from_ref(&outside)), WaitReason::NoWorker);
        assert_eq!(judge(&[outside, inside]), WaitReason::Turn);
    }
}
