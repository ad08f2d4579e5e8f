//! Workers: most do their work, some are slow, some vanish, and some come back after their lease as if nothing was.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, LeaseTerm, Progress};
use interlock_model::job::JobOutcome;
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId};
use serde_json::json;

use crate::dice::{Actor, Dice};
use crate::spenders;
use crate::workflows::TOPIC;
use crate::world::World;

pub(crate) struct Worker {
    world: Arc<World>,
    name: String,
    tenant: TenantId,
    dice: Dice,
}

/// What a worker does with a job.
#[derive(Clone, Copy)]
enum Manner {
    Prompt,
    /// With heartbeats, and stopping when an answer requests it.
    Steady,
    /// With heartbeats, and deaf to their answers.
    Stubborn,
    Failing {
        retryable: bool,
    },
    /// Never heard of again.
    Vanishing,
    /// Continues after its lease has expired.
    Pausing,
    /// Says two things about one job.
    Contradicting,
}

/// How often a worker repeats a report that got no answer.
const REPORTS_MAX: u32 = 4;

impl Worker {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        let plans = &world.scenario.tenants;
        let tenant = plans[number % plans.len()].id.clone();
        let dice = Dice::of(Actor::Worker(number), world.seed);
        Self { name: format!("w{number}"), tenant, dice, world }
    }

    /// Works until it is aborted.
    pub(crate) async fn work(mut self) {
        loop {
            match self.claim().await {
                Some(jobs) => {
                    for job in jobs {
                        self.work_on(&job).await;
                    }
                }
                None => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    async fn claim(&mut self) -> Option<Vec<Claimed>> {
        let instance = self.world.instance(&mut self.dice)?;
        let claim = Claim {
            tenant: self.tenant.clone(),
            worker: self.name.parse().ok()?,
            topics: vec![TOPIC.parse().ok()?],
            capabilities: Vec::new(),
            jobs_max: self.dice.between(1, 2) as usize,
            term: LeaseTerm::For(self.world.scenario.job_lease),
            edge: Edge::Http,
        };
        let (control, wait) = (instance.control.clone(), self.dice.millis(1_000, 5_000));
        let answer = instance
            .call(async move {
                control.results.claim(claim, wait, &tokio_util::sync::CancellationToken::new()).await
            })
            .await;
        self.heard(answer)
    }

    async fn work_on(&mut self, claimed: &Claimed) {
        let (job, fence) = (&claimed.job.id, claimed.lease.fence);
        let lease = claimed.lease.ttl;
        let spent = spenders::usage(&mut self.dice);
        let completed = JobOutcome::completed(json!({"by": self.name})).with_usage(spent.clone());
        match self.manner() {
            Manner::Prompt => {
                let longest = if self.world.scenario.is_crowded { 30 } else { 600 };
                tokio::time::sleep(self.dice.millis(0, longest)).await;
                self.report((job, fence), completed).await;
            }
            Manner::Steady => {
                if self.beat((job, fence), lease, true).await {
                    self.report((job, fence), completed).await;
                }
            }
            Manner::Stubborn => {
                self.beat((job, fence), lease, false).await;
                self.report((job, fence), completed).await;
            }
            Manner::Failing { retryable } => {
                tokio::time::sleep(self.dice.millis(0, 300)).await;
                let failed = JobOutcome::failed("it broke".to_owned(), retryable).with_usage(spent);
                self.report((job, fence), failed).await;
            }
            Manner::Vanishing => tokio::time::sleep(self.dice.millis(0, 2_000)).await,
            Manner::Pausing => {
                tokio::time::sleep(lease + self.dice.millis(0, 1_500)).await;
                if self.dice.percent(40) {
                    self.heartbeat(job, fence).await;
                }
                self.report((job, fence), completed).await;
            }
            Manner::Contradicting => {
                self.report((job, fence), completed).await;
                let failed = JobOutcome::failed("no, it broke".to_owned(), true);
                self.report((job, fence), failed).await;
            }
        }
    }

    fn manner(&mut self) -> Manner {
        if self.world.is_calm() {
            return Manner::Prompt;
        }
        let others = [
            (15, Manner::Steady),
            (5, Manner::Stubborn),
            (14, Manner::Failing { retryable: true }),
            (4, Manner::Failing { retryable: false }),
            (7, Manner::Vanishing),
            (10, Manner::Pausing),
            (5, Manner::Contradicting),
        ];
        self.dice.weighted(Manner::Prompt, &others, 100)
    }

    /// Holds the job for a while. Whether the worker still may.
    async fn beat(&mut self, (job, fence): (&JobId, Fence), lease: Duration, listens: bool) -> bool {
        for percent in 1..=self.dice.between(1, 3) {
            tokio::time::sleep(lease / 2).await;
            if self.dice.percent(30) {
                self.progress((job, fence), percent).await;
            }
            if self.heartbeat(job, fence).await == Some(false) && listens {
                return false;
            }
        }
        true
    }

    /// Whether the answer lets the worker continue; none if there is no answer.
    async fn heartbeat(&mut self, job: &JobId, fence: Fence) -> Option<bool> {
        let instance = self.world.instance(&mut self.dice)?;
        let (control, tenant, job) = (instance.control.clone(), self.tenant.clone(), job.clone());
        let answer =
            instance.call(async move { control.results.heartbeat(&tenant, &job, fence).await }).await;
        match answer {
            Some(Err(StoreError::Fenced { .. } | StoreError::NotFound { .. })) => Some(false),
            other => self.heard(other).map(|answer| matches!(answer, Heartbeat::Extended { .. })),
        }
    }

    async fn progress(&mut self, (job, fence): (&JobId, Fence), percent: u32) {
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let (control, tenant, job) = (instance.control.clone(), self.tenant.clone(), job.clone());
        let progress = Progress { percent: u8::try_from(percent).unwrap_or(100), message: None };
        let answer = instance
            .call(async move { control.results.progress(&tenant, &job, fence, progress).await })
            .await;
        self.heard(answer);
    }

    /// Reports, again where the answer was lost.
    async fn report(&mut self, (job, fence): (&JobId, Fence), outcome: JobOutcome) {
        for _ in 0..REPORTS_MAX {
            if let Some(instance) = self.world.instance(&mut self.dice) {
                let (control, tenant) = (instance.control.clone(), self.tenant.clone());
                let (job, outcome) = (job.clone(), outcome.clone());
                let answer = instance
                    .call(async move { control.results.submit(&tenant, &job, fence, outcome).await })
                    .await;
                match answer {
                    Some(Ok(()) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. })) => return,
                    other => drop(self.heard(other)),
                }
            }
            tokio::time::sleep(self.dice.millis(20, 200)).await;
        }
    }

    /// The answer, if one came.
    fn heard<T>(&self, answer: Option<Result<T, StoreError>>) -> Option<T> {
        let answer = answer.and_then(Result::ok);
        self.world.checker.with(|checker| checker.counts.answers_lost += u64::from(answer.is_none()));
        answer
    }
}
