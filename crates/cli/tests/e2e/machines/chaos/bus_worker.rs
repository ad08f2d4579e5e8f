//! An unreliable worker on NATS, for every tenant.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use interlock_cap::wire::{self, ComponentRole, Handshake, Heartbeat, JobResult, JobStatus, Payload};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{MissedTickBehavior, interval};

use super::super::nats_workers::packet;
use super::BUS_TOPIC;
use super::ledger::Ledger;

pub(super) struct BusWorker {
    name: String,
    client: Client,
    jobs: Subscriber,
    random: ChaCha8Rng,
}

const BEAT: Duration = Duration::from_millis(500);

impl BusWorker {
    pub(super) async fn new(number: usize, seed: u64, nats: &str) -> Self {
        let name = format!("bus-{number}");
        let client = async_nats::connect(nats).await.unwrap();
        let jobs = client.subscribe(format!("worker.{name}.jobs")).await.unwrap();
        let random = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number as u64));
        Self { name, client, jobs, random }
    }

    pub(super) async fn work(mut self, ledger: Arc<Ledger>) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while ledger.may_work() {
            tokio::select! {
                _ = beats.tick() => self.beat().await,
                pushed = self.jobs.next() => {
                    let Some(pushed) = pushed else { return };
                    if let Ok(Payload::JobRequest(job)) = wire::read(&pushed.payload).map(|read| read.payload) {
                        self.handle(&job.job_id).await;
                    }
                }
            }
        }
    }

    /// Sends a handshake each time: replicas that have started since do not know the worker.
    async fn beat(&self) {
        let handshake = Handshake {
            component_id: self.name.clone(),
            role: ComponentRole::Worker.into(),
            ready_topics: vec![BUS_TOPIC.to_owned()],
            ..Handshake::default()
        };
        self.publish(wire::HANDSHAKE, Payload::Handshake(handshake)).await;
        let beat = Heartbeat { worker_id: self.name.clone(), max_parallel_jobs: 4, ..Heartbeat::default() };
        self.publish(wire::HEARTBEAT, Payload::Heartbeat(beat)).await;
    }

    async fn handle(&mut self, job: &str) {
        let status = match self.random.random_range(0..20) {
            // It pauses: no heartbeat, and then a late result.
            0 => {
                tokio::time::sleep(BEAT * 6).await;
                JobStatus::Succeeded
            }
            1 | 2 => JobStatus::FailedRetryable,
            _ => JobStatus::Succeeded,
        };
        let result = JobResult {
            job_id: job.to_owned(),
            status: status.into(),
            worker_id: self.name.clone(),
            ..JobResult::default()
        };
        self.publish(wire::RESULT, Payload::JobResult(result)).await;
    }

    /// While NATS is unreachable, the client keeps or loses the packet: both happen to real workers.
    async fn publish(&self, subject: &'static str, payload: Payload) {
        let _ = self.client.publish(subject, packet(&self.name, payload).into()).await;
    }
}
