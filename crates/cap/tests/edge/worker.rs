//! A scripted worker of the protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use interlock_cap::wire::{
    self, BusPacket, ComponentRole, Handshake, Heartbeat, JobProgress, JobRequest, JobResult, JobStatus,
    Payload,
};
use interlock_poll::LIMIT;
use prost::Message as _;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::fixture::{Fixture, TOPIC, connect};

/// How a worker behaves.
#[derive(Debug, Clone)]
pub(crate) struct WorkerOptions {
    pub(crate) capacity: i32,
    pub(crate) tenant: Option<&'static str>,
    pub(crate) every: Duration,
    pub(crate) capabilities: &'static [&'static str],
    /// Empty for no pool.
    pub(crate) pool: &'static str,
    /// Whether its heartbeats count its jobs.
    pub(crate) counts: bool,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let every = Duration::from_millis(100);
        Self { capacity: 4, tenant: None, every, capabilities: &[], pool: "", counts: true }
    }
}

pub(crate) struct Worker {
    pub(crate) id: String,
    client: Client,
    jobs: Subscriber,
    /// Jobs that it has; always none for one that does not count them.
    active: Arc<AtomicI32>,
    counts: bool,
    _beating: AbortOnDropHandle<()>,
}

impl Worker {
    /// Sends the handshake and begins to send heartbeats. Dropping the worker ends them.
    pub(crate) async fn join(fixture: &Fixture, id: &str, options: WorkerOptions) -> Self {
        Self::join_at(&fixture.nats.url(), id, options).await
    }

    pub(crate) async fn join_at(url: &str, id: &str, options: WorkerOptions) -> Self {
        let client = connect(url).await;
        let jobs = client.subscribe(format!("worker.{id}.jobs")).await.unwrap();
        let handshake = Handshake {
            component_id: id.to_owned(),
            role: ComponentRole::Worker.into(),
            supported_versions: vec![1],
            ready_topics: vec![TOPIC.to_owned()],
            ..Handshake::default()
        };
        publish(&client, wire::HANDSHAKE, id, Payload::Handshake(handshake)).await;
        let heartbeat = heartbeat(id, &options);
        let active = Arc::new(AtomicI32::new(0));
        let beating = tokio::spawn(beat(client.clone(), heartbeat, options.every, active.clone()));
        Self {
            id: id.to_owned(),
            client,
            jobs,
            active,
            counts: options.counts,
            _beating: AbortOnDropHandle::new(beating),
        }
    }

    /// Its connection loses what is pushed from now on.
    pub(crate) async fn cut(&mut self) {
        self.jobs.unsubscribe().await.unwrap();
        self.client.flush().await.unwrap();
    }

    pub(crate) async fn reconnect(&mut self) {
        self.jobs = self.client.subscribe(format!("worker.{}.jobs", self.id)).await.unwrap();
        self.client.flush().await.unwrap();
    }

    fn took(&self, message: &async_nats::Message) -> JobRequest {
        self.active.fetch_add(i32::from(self.counts), Ordering::Relaxed);
        request(message)
    }

    pub(crate) async fn beat_once(&self) {
        let active_jobs = self.active.load(Ordering::Relaxed);
        let heartbeat = Heartbeat { worker_id: self.id.clone(), active_jobs, ..Heartbeat::default() };
        publish(&self.client, wire::HEARTBEAT, &self.id, Payload::Heartbeat(heartbeat)).await;
    }

    /// Sends one heartbeat with these options.
    pub(crate) async fn beat_as(&self, options: &WorkerOptions) {
        let active_jobs = self.active.load(Ordering::Relaxed);
        let heartbeat = Heartbeat { active_jobs, ..heartbeat(&self.id, options) };
        publish(&self.client, wire::HEARTBEAT, &self.id, Payload::Heartbeat(heartbeat)).await;
    }

    pub(crate) async fn next_job(&mut self) -> JobRequest {
        let message = timeout(LIMIT, self.jobs.next()).await.expect("a job is pushed").unwrap();
        self.took(&message)
    }

    /// The next job, if one was already pushed.
    pub(crate) async fn pushed_job(&mut self) -> Option<JobRequest> {
        self.client.flush().await.unwrap();
        let message = timeout(Duration::from_millis(1), self.jobs.next()).await.ok()??;
        Some(self.took(&message))
    }

    /// Stores the output and reports success, as the SDK does.
    pub(crate) async fn succeed(&self, fixture: &Fixture, job: &JobRequest, output: &Value) {
        let key = format!("res:{}", job.job_id);
        fixture.redis.command(&["SET", &key, &output.to_string()]).await.unwrap();
        self.report(JobResult {
            result_ptr: format!("redis://{key}"),
            ..self.result(job, JobStatus::Succeeded)
        })
        .await;
    }

    pub(crate) async fn fail(&self, job: &JobRequest, status: JobStatus) {
        let result = self.result(job, status);
        self.report(JobResult { error_message: "no luck".to_owned(), ..result }).await;
    }

    pub(crate) fn result(&self, job: &JobRequest, status: JobStatus) -> JobResult {
        JobResult {
            job_id: job.job_id.clone(),
            status: status.into(),
            worker_id: self.id.clone(),
            ..JobResult::default()
        }
    }

    pub(crate) async fn report(&self, result: JobResult) {
        self.active.fetch_sub(i32::from(self.counts), Ordering::Relaxed);
        publish(&self.client, wire::RESULT, &self.id, Payload::JobResult(result)).await;
    }

    pub(crate) async fn progress(&self, job: &JobRequest, percent: i32) {
        let progress = JobProgress {
            job_id: job.job_id.clone(),
            percent,
            message: "half way".to_owned(),
            ..JobProgress::default()
        };
        publish(&self.client, wire::PROGRESS, &self.id, Payload::JobProgress(progress)).await;
    }
}

fn heartbeat(id: &str, options: &WorkerOptions) -> Heartbeat {
    let labels = options.tenant.map(|tenant| ("tenant".to_owned(), tenant.to_owned()));
    Heartbeat {
        worker_id: id.to_owned(),
        max_parallel_jobs: options.capacity,
        labels: labels.into_iter().collect(),
        capabilities: options.capabilities.iter().map(|&name| name.to_owned()).collect(),
        pool: options.pool.to_owned(),
        ..Heartbeat::default()
    }
}

fn request(message: &async_nats::Message) -> JobRequest {
    let payload = BusPacket::decode(&*message.payload).unwrap().payload;
    let Some(Payload::JobRequest(request)) = payload else { panic!("not a job: {payload:?}") };
    request
}

async fn beat(client: Client, heartbeat: Heartbeat, every: Duration, active: Arc<AtomicI32>) {
    let id = heartbeat.worker_id.clone();
    let mut ticks = tokio::time::interval(every);
    // The SDK also begins with a pause.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let heartbeat = Heartbeat { active_jobs: active.load(Ordering::Relaxed), ..heartbeat.clone() };
        publish(&client, wire::HEARTBEAT, &id, Payload::Heartbeat(heartbeat)).await;
    }
}

pub(crate) async fn publish(client: &Client, subject: &'static str, sender: &str, payload: Payload) {
    let packet = BusPacket {
        trace_id: "trace".to_owned(),
        sender_id: sender.to_owned(),
        created_at: Some(prost_types::Timestamp::default()),
        protocol_version: 1,
        payload: Some(payload),
        ..BusPacket::default()
    };
    client.publish(subject, packet.encode_to_vec().into()).await.unwrap();
    // While NATS is unreachable, the client keeps the packet.
    let _ = timeout(Duration::from_secs(1), client.flush()).await;
}
