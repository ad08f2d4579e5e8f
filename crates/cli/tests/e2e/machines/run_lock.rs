//! Results under the lock of their run: what NATS is told about a busy one, and what becomes of results over HTTP.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use interlock_cap::wire::{self, JobResult, JobStatus, Payload};
use interlock_model::JobId;
use serde_json::{Value, json};

use super::Machines;
use super::nats_workers::{BY_HAND, TOPIC, dead_letters, introduce, say, until};
use crate::run_lock::fan_in;
use crate::server::{BINARY, Caller, LIMIT};

const STEPS: usize = 4;

/// A run whose jobs are all with one worker on NATS, and whose lock an outsider has taken.
struct Scene {
    machines: Machines,
    caller: Caller,
    client: Client,
    /// What the replicas say to the consumer of results.
    acknowledgements: Subscriber,
    run: String,
    jobs: Vec<JobId>,
}

/// A negative acknowledgement, as NATS hears it.
#[derive(Debug)]
struct Nak {
    job: JobId,
    delivery: u32,
    delay: Duration,
    heard_at: Instant,
}

impl Scene {
    async fn open(arguments: &[&str]) -> Self {
        let machines = Machines::start_with(2, &[&["--run-strategy", "lock"], arguments].concat()).await;
        let caller = machines.replicas[0].caller("acme");
        let step = json!({"type": "worker", "topic": TOPIC});
        let steps: serde_json::Map<_, _> = (0..STEPS).map(|n| (format!("s{n}"), step.clone())).collect();
        caller.workflow("job", Value::Object(steps)).await;
        let client = async_nats::connect(machines.nats.url()).await.unwrap();
        let acknowledgements = client.subscribe("$JS.ACK.CORDUM_SYS.interlock-results.>").await.unwrap();
        let mut pushed = client.subscribe(format!("worker.{BY_HAND}.jobs")).await.unwrap();
        introduce(&client).await;
        let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
        let mut jobs = Vec::new();
        for _ in 0..STEPS {
            let message = tokio::time::timeout(LIMIT, pushed.next()).await.unwrap().unwrap();
            let read = wire::read(&message.payload).unwrap().payload;
            let Payload::JobRequest(job) = read else { panic!("no job: {read:?}") };
            jobs.push(job.job_id.parse().unwrap());
        }
        let scene = Self { machines, caller, client, acknowledgements, run, jobs };
        scene.machines.redis.command(&["SET", &scene.lock(), "an outsider"]).await.unwrap();
        scene
    }

    fn lock(&self) -> String {
        format!("cordum:wf:run:lock:{}", self.run)
    }

    async fn report(&self, job: &JobId) {
        let result = JobResult {
            job_id: job.to_string(),
            status: JobStatus::Succeeded.into(),
            worker_id: BY_HAND.to_owned(),
            ..JobResult::default()
        };
        say(&self.client, wire::RESULT, Payload::JobResult(result)).await;
    }

    /// The next negative acknowledgement.
    async fn next_nak(&mut self) -> Nak {
        loop {
            let heard = tokio::time::timeout(LIMIT, self.acknowledgements.next()).await.unwrap().unwrap();
            let heard_at = Instant::now();
            let Some(told) = heard.payload.strip_prefix(b"-NAK ".as_slice()) else { continue };
            let told: Value = serde_json::from_slice(told).unwrap();
            // $JS.ACK.<stream>.<consumer>.<delivery>.<sequence>.…
            let parts: Vec<&str> = heard.subject.split('.').collect();
            let job = self.job_at(parts[5].parse().unwrap()).await;
            let delay = Duration::from_nanos(told["delay"].as_u64().unwrap());
            return Nak { job, delivery: parts[4].parse().unwrap(), delay, heard_at };
        }
    }

    /// Of the result that stands at this place of the stream.
    async fn job_at(&self, sequence: u64) -> JobId {
        let context = jetstream::new(self.client.clone());
        let stream = context.get_stream("CORDUM_SYS").await.unwrap();
        let message = stream.get_raw_message(sequence).await.unwrap();
        let read = wire::read(&message.payload).unwrap().payload;
        let Payload::JobResult(result) = read else { panic!("no result: {read:?}") };
        result.job_id.parse().unwrap()
    }

    /// All jobs report, and each finds its run busy so many times; then the outsider goes away, and the run ends.
    async fn naks(mut self, deliveries: u32) -> BTreeMap<JobId, Vec<Nak>> {
        for job in &self.jobs {
            self.report(job).await;
        }
        let mut heard: BTreeMap<JobId, Vec<Nak>> = BTreeMap::new();
        while heard.len() < STEPS || heard.values().any(|naks| naks.len() < deliveries as usize) {
            let nak = self.next_nak().await;
            heard.entry(nak.job.clone()).or_default().push(nak);
        }
        assert_eq!(self.caller.run(&self.run).await["status"], "running");
        let shown = self.machines.redis.command(&["GET", &self.lock()]).await.unwrap();
        assert_eq!(shown, "an outsider", "what is not ours is left alone");
        self.machines.redis.command(&["DEL", &self.lock()]).await.unwrap();
        assert_eq!(self.caller.ended(&self.run).await["status"], "succeeded");
        heard
    }
}

/// What the command line says about the job, with no server to ask.
fn explained(policy: &str, job: &JobId, attempts: usize) -> Vec<Duration> {
    let (job, attempts) = (job.to_string(), attempts.to_string());
    let explain =
        ["retry-policy", "explain", "--json", "--job", &job, "--policy", policy, "--attempts", &attempts];
    let said = Command::new(BINARY).args(explain).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let delay = |attempt: &Value| Duration::from_millis(attempt["delay_ms"].as_u64().unwrap());
    said["attempts"].as_array().unwrap().iter().map(delay).collect()
}

/// Every delay is what `retry-policy explain` computes for its job and delivery, and NATS has kept to it.
fn check(heard: &BTreeMap<JobId, Vec<Nak>>, policy: &str) -> Vec<u128> {
    for (job, naks) in heard {
        for (delivery, nak) in (1..).zip(naks) {
            assert_eq!(nak.delivery, delivery, "{naks:?}");
        }
        let told: Vec<Duration> = naks.iter().map(|nak| nak.delay).collect();
        assert_eq!(told, explained(policy, job, naks.len()), "{job}");
        for pair in naks.windows(2) {
            // A message that is redelivered is heard of again after its delay, by the clock of this test.
            let apart = pair[1].heard_at - pair[0].heard_at + Duration::from_millis(20);
            assert!(apart >= pair[0].delay, "{pair:?}");
        }
    }
    heard.values().flatten().map(|nak| nak.delay.as_millis()).collect()
}

#[tokio::test]
async fn by_default_nats_is_told_five_hundred_milliseconds_exactly() {
    let heard = Scene::open(&[]).await.naks(3).await;
    let delays = check(&heard, "fixed:500ms");
    assert!(delays.len() >= 12 && delays.iter().all(|delay| *delay == 500), "{delays:?}");
}

#[tokio::test]
async fn with_jitter_nats_is_told_delays_in_the_band_spread_and_as_the_seed_gives_them() {
    let policy = "bounded_jitter:500ms:30%";
    let heard = Scene::open(&["--lock-busy-retry", policy]).await.naks(3).await;
    let delays = check(&heard, policy);
    let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(*low >= 350 && *high <= 650, "{delays:?}");
    assert!(high - low >= 100, "twelve of them are spread: {delays:?}");
}

#[tokio::test]
async fn a_result_that_finds_its_run_busy_at_every_delivery_is_a_dead_letter() {
    let mut scene = Scene::open(&["--deliveries-max", "3", "--lock-busy-retry", "fixed:50ms"]).await;
    let job = scene.jobs[0].clone();
    scene.report(&job).await;
    for delivery in 1..=2 {
        let nak = scene.next_nak().await;
        assert_eq!((&nak.job, nak.delivery, nak.delay), (&job, delivery, Duration::from_millis(50)));
    }
    let listed = || dead_letters(&scene.machines.replicas[1]);
    until("the result is a dead letter", async || !listed().is_empty()).await;
    let letter = listed().remove(0);
    assert_eq!((&letter["job_id"], &letter["attempts"]), (&json!(job.to_string()), &json!(3)));
    assert_eq!(
        (&letter["reason_code"], &letter["last_error"]),
        (&json!("result_unhandled"), &json!("the run was busy"))
    );
    scene.machines.redis.command(&["DEL", &scene.lock()]).await.unwrap();
    let ended = scene.caller.ended(&scene.run).await;
    assert_eq!(ended["status"], "failed", "its job has failed with it: {ended}");
}

#[tokio::test]
async fn a_result_over_http_waits_for_its_run_is_put_off_and_counts_in_the_end() {
    let arguments = ["--run-strategy", "lock", "--lock-busy-max-wait-ms", "700"];
    let machines = Machines::start_with(2, &arguments).await;
    let caller = machines.replicas[0].caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    let lock = format!("cordum:wf:run:lock:{run}");
    machines.redis.command(&["SET", &lock, "an outsider"]).await.unwrap();
    let began = Instant::now();
    caller.complete(&job, &json!("done")).await.expect(200);
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    // The store has it: the worker may go, and so may the replica that it spoke to.
    let id = job["job_id"].as_str().unwrap();
    let waiting = machines.redis.command(&["ZSCORE", "wf:put_off:{acme}", id]).await.unwrap();
    assert!(waiting.parse::<f64>().is_ok(), "{waiting}");
    let failed = json!({"fence": job["fence"], "error": "no", "retryable": false});
    let other = caller.post(&format!("/jobs/{id}/fail"), failed).await.expect(409);
    assert_eq!(other.text("code"), "stale_fence", "the first word counts");
    let mut replicas = machines.replicas.into_iter();
    replicas.next().unwrap().kill();
    let caller = replicas.as_slice()[0].caller("acme");
    assert_eq!(caller.run(&run).await["status"], "running");
    machines.redis.command(&["DEL", &lock]).await.unwrap();
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["steps"]["work"]["output"]), (&json!("succeeded"), &json!("done")));
    assert_eq!(ended["steps"]["work"]["attempts"], 1);
}

#[tokio::test]
async fn results_that_come_all_at_once_over_three_replicas_all_count_once() {
    let machines =
        Machines::start_with(3, &["--run-strategy", "lock", "--lock-busy-retry", "full_jitter:20ms:1s"])
            .await;
    fan_in(&machines.callers("acme")).await;
}
