//! Why a job still waits. One judgement for everybody who asks.

use serde::{Deserialize, Serialize};

use super::{LiveWorker, Load, Pools};
use crate::job::NewJob;

/// What a queued job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// Nobody who is there serves its topic.
    NoWorker,
    /// Nobody who serves its topic is capable of what it requires.
    Capability,
    /// All who could do it are draining.
    Draining,
    /// All who could do it have as much as they can carry.
    Saturated,
    /// Somebody has room: it is about to go out, or others go before it.
    Turn,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingFor {
    pub reason: WaitReason,
    /// The reason as a sentence.
    pub detail: String,
    /// Jobs before it in its queue.
    pub position: usize,
    /// Workers that could do it and are not draining.
    pub workers: usize,
}

impl WaitReason {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoWorker => "no_worker",
            Self::Capability => "capability",
            Self::Draining => "draining",
            Self::Saturated => "saturated",
            Self::Turn => "turn",
        }
    }
}

impl WaitingFor {
    /// Judges by the workers that are there and that serve the job's tenant.
    #[must_use]
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
            (WaitReason::NoWorker, nobody(job, serving.len(), pools))
        } else if capable.is_empty() {
            (WaitReason::Capability, incapable(job, &admitted))
        } else if taking.is_empty() {
            (WaitReason::Draining, all_are(capable.len(), "draining"))
        } else if has_room {
            (WaitReason::Turn, turn(position))
        } else {
            let is_known = taking.iter().any(|worker| worker.load.is_some());
            let detail = if is_known { all_are(taking.len(), "busy") } else { silent(taking.len()) };
            (WaitReason::Saturated, detail)
        };
        Self { reason, detail, position, workers: taking.len() }
    }
}

fn nobody(job: &NewJob, serving: usize, pools: &Pools) -> String {
    let topic = &job.topic;
    if serving == 0 {
        return format!("no worker that is there serves the topic {topic}");
    }
    let named: Vec<&str> = pools.of(topic).map(|(name, _)| name).collect();
    let who = workers_serve(serving);
    if named.is_empty() {
        return format!("{who} the topic {topic}, in pools that are there for others");
    }
    format!("{who} the topic {topic}, but not as its pool requires ({})", named.join(", "))
}

/// What it requires that nobody has, or that nobody has together.
fn incapable(job: &NewJob, serving: &[&LiveWorker]) -> String {
    let kind = job.kind();
    let lacking = serving.iter().map(|worker| kind.missing(&worker.capabilities)).min_by_key(Vec::len);
    let lacking = lacking.unwrap_or_default().join(", ");
    format!("{} the topic {}; the nearest lacks {lacking}", workers_serve(serving.len()), job.topic)
}

fn turn(position: usize) -> String {
    match position {
        0 => "it is the next of its queue".to_owned(),
        1 => "1 job of its queue goes before it".to_owned(),
        jobs => format!("{jobs} jobs of its queue go before it"),
    }
}

fn workers_serve(workers: usize) -> String {
    if workers == 1 { "1 worker serves".to_owned() } else { format!("{workers} workers serve") }
}

/// Of workers whose load nobody but they know.
fn silent(workers: usize) -> String {
    match workers {
        1 => "the one worker that could do it does not ask for jobs at present".to_owned(),
        workers => format!("none of the {workers} workers that could do it asks for jobs at present"),
    }
}

fn all_are(workers: usize, state: &str) -> String {
    match workers {
        1 => format!("the one worker that could do it is {state}"),
        workers => format!("all {workers} workers that could do it are {state}"),
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
            meta: JobMeta { requires, ..JobMeta::default() },
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
    fn without_a_worker_for_its_topic_it_waits_for_one() {
        assert_eq!(judged(&[], &[]), (WaitReason::NoWorker, 0));
        assert_eq!(judged(&[], &[worker("test", &[], Some((0, 4)))]), (WaitReason::NoWorker, 0));
    }

    #[test]
    fn capabilities_that_nobody_has_together_are_missing() {
        let halves = [worker("build", &["gpu"], Some((0, 4))), worker("build", &["linux"], None)];
        assert_eq!(judged(&["gpu", "linux"], &halves), (WaitReason::Capability, 0));
        assert_eq!(judged(&["gpu"], &halves), (WaitReason::Turn, 1));
        let found = WaitingFor::judge(&job(&["gpu", "arm"]), 0, &halves, &Pools::default());
        assert_eq!(found.detail, "2 workers serve the topic build; the nearest lacks arm");
    }

    #[test]
    fn who_drains_does_not_count_and_who_is_full_does() {
        let draining = LiveWorker { is_draining: true, ..worker("build", &[], Some((0, 4))) };
        assert_eq!(judged(&[], std::slice::from_ref(&draining)), (WaitReason::Draining, 0));
        let full = worker("build", &[], Some((4, 4)));
        assert_eq!(judged(&[], &[draining, full.clone()]), (WaitReason::Saturated, 1));
        // One on HTTP would ask if it had room.
        assert_eq!(judged(&[], &[full, worker("build", &[], None)]), (WaitReason::Saturated, 2));
    }

    #[test]
    fn with_room_it_is_a_matter_of_turns() {
        assert_eq!(judged(&[], &[worker("build", &[], Some((3, 4)))]), (WaitReason::Turn, 1));
        assert_eq!(turn(0), "it is the next of its queue");
        assert_eq!(turn(12), "12 jobs of its queue go before it");
    }

    #[test]
    fn a_pool_keeps_others_away() {
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
