//! Results under the lock of their run: redelivery of a busy one over NATS, and deferred results over HTTP.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use interlock_cap::wire::{self, JobResult, JobStatus, Payload};
use interlock_model::JobId;
use interlock_poll::until;
use serde_json::{Value, json};

use super::Machines;
use super::nats_workers::{SCRIPTED, TOPIC, announce, dead_letters, publish};
use crate::run_lock::fan_in;
use crate::server::{BINARY, Caller, LIMIT};

const STEPS: usize = 4;

/// A run whose jobs are all with one worker on NATS, and whose lock another client holds.
struct BusyRun {
    machines: Machines,
    caller: Caller,
    client: Client,
    /// What the replicas acknowledge of the results.
    acknowledgements: Subscriber,
    run: String,
    jobs: Vec<JobId>,
}

/// A negative acknowledgement.
#[derive(Debug)]
struct Nak {
    job: JobId,
    delivery: u32,
    delay: Duration,
    /// Since the results were reported.
    after: Duration,
}

impl BusyRun {
    async fn open(arguments: &[&str]) -> Self {
        let machines = Machines::start_with(2, &[&["--run-strategy", "lock"], arguments].concat()).await;
        let caller = machines.replicas[0].caller("acme");
        let step = json!({"type": "worker", "topic": TOPIC});
        let steps: serde_json::Map<_, _> = (0..STEPS).map(|n| (format!("s{n}"), step.clone())).collect();
        caller.workflow("job", Value::Object(steps)).await;
        let client = async_nats::connect(machines.nats.url()).await.unwrap();
        let acknowledgements = client.subscribe("$JS.ACK.CORDUM_SYS.interlock-results.>").await.unwrap();
        let mut pushed = client.subscribe(format!("worker.{SCRIPTED}.jobs")).await.unwrap();
        announce(&client).await;
        let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
        let mut jobs = Vec::new();
        for _ in 0..STEPS {
            let message = tokio::time::timeout(LIMIT, pushed.next()).await.unwrap().unwrap();
            let read = wire::read(&message.payload).unwrap().payload;
            let Payload::JobRequest(job) = read else { panic!("no job: {read:?}") };
            jobs.push(job.job_id.parse().unwrap());
        }
        let busy = Self { machines, caller, client, acknowledgements, run, jobs };
        busy.machines.redis.command(&["SET", &busy.lock(), "another client"]).await.unwrap();
        busy
    }

    fn lock(&self) -> String {
        format!("cordum:wf:run:lock:{}", self.run)
    }

    async fn report(&self, job: &JobId) {
        let result = JobResult {
            job_id: job.to_string(),
            status: JobStatus::Succeeded.into(),
            worker_id: SCRIPTED.to_owned(),
            ..JobResult::default()
        };
        publish(&self.client, wire::RESULT, Payload::JobResult(result)).await;
    }

    /// The next negative acknowledgement of results that were reported at this time.
    async fn next_nak(&mut self, reported_at: Instant) -> Nak {
        loop {
            let heard = tokio::time::timeout(LIMIT, self.acknowledgements.next()).await.unwrap().unwrap();
            let after = reported_at.elapsed();
            let Some(options) = heard.payload.strip_prefix(b"-NAK ".as_slice()) else { continue };
            let options: Value = serde_json::from_slice(options).unwrap();
            // $JS.ACK.<stream>.<consumer>.<delivery>.<sequence>.…
            let parts: Vec<&str> = heard.subject.split('.').collect();
            let job = self.job_at(parts[5].parse().unwrap()).await;
            let delay = Duration::from_nanos(options["delay"].as_u64().unwrap());
            return Nak { job, delivery: parts[4].parse().unwrap(), delay, after };
        }
    }

    /// The job of the result with this sequence number in the stream.
    async fn job_at(&self, sequence: u64) -> JobId {
        let context = jetstream::new(self.client.clone());
        let stream = context.get_stream("CORDUM_SYS").await.unwrap();
        let message = stream.get_raw_message(sequence).await.unwrap();
        let read = wire::read(&message.payload).unwrap().payload;
        let Payload::JobResult(result) = read else { panic!("no result: {read:?}") };
        result.job_id.parse().unwrap()
    }

    /// Reports all jobs, waits until each was refused this number of times, then frees the lock and waits for the end.
    async fn naks(mut self, deliveries: u32) -> BTreeMap<JobId, Vec<Nak>> {
        let reported_at = Instant::now();
        for job in &self.jobs {
            self.report(job).await;
        }
        let mut heard: BTreeMap<JobId, Vec<Nak>> = BTreeMap::new();
        while heard.len() < STEPS || heard.values().any(|naks| naks.len() < deliveries as usize) {
            let nak = self.next_nak(reported_at).await;
            heard.entry(nak.job.clone()).or_default().push(nak);
        }
        assert_eq!(self.caller.run(&self.run).await["status"], "running");
        let shown = self.machines.redis.command(&["GET", &self.lock()]).await.unwrap();
        assert_eq!(shown, "another client", "a foreign lock is left alone");
        self.machines.redis.command(&["DEL", &self.lock()]).await.unwrap();
        assert_eq!(self.caller.ended(&self.run).await["status"], "succeeded");
        heard
    }
}

/// What `retry-policy explain` computes for the job without a server.
fn explained(policy: &str, job: &JobId, attempts: usize) -> Vec<Duration> {
    let (job, attempts) = (job.to_string(), attempts.to_string());
    let explain =
        ["retry-policy", "explain", "--json", "--job", &job, "--policy", policy, "--attempts", &attempts];
    let output = Command::new(BINARY).args(explain).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    let delay = |attempt: &Value| Duration::from_millis(attempt["delay_ms"].as_u64().unwrap());
    explained["attempts"].as_array().unwrap().iter().map(delay).collect()
}

/// Asserts that every delay is what `retry-policy explain` computes, and that no redelivery came too early.
fn check(heard: &BTreeMap<JobId, Vec<Nak>>, policy: &str) -> Vec<u128> {
    for (job, naks) in heard {
        for (delivery, nak) in (1..).zip(naks) {
            assert_eq!(nak.delivery, delivery, "{naks:?}");
        }
        let delays: Vec<Duration> = naks.iter().map(|nak| nak.delay).collect();
        assert_eq!(delays, explained(policy, job, naks.len()), "{job}");
        let mut earliest = Duration::ZERO;
        for nak in naks {
            assert!(nak.after >= earliest, "{naks:?}");
            earliest += nak.delay;
        }
    }
    heard.values().flatten().map(|nak| nak.delay.as_millis()).collect()
}

#[tokio::test]
async fn by_default_a_busy_result_is_redelivered_after_500_ms() {
    let heard = BusyRun::open(&[]).await.naks(3).await;
    let delays = check(&heard, "fixed:500ms");
    assert!(delays.len() >= 12 && delays.iter().all(|delay| *delay == 500), "{delays:?}");
}

#[tokio::test]
async fn with_jitter_the_delays_are_in_the_band_spread_and_derived_from_the_seed() {
    let policy = "bounded_jitter:500ms:30%";
    let heard = BusyRun::open(&["--lock-busy-retry", policy]).await.naks(3).await;
    let delays = check(&heard, policy);
    let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(*low >= 350 && *high <= 650, "{delays:?}");
    assert!(high - low >= 100, "twelve of them are spread: {delays:?}");
}

#[tokio::test]
async fn a_result_that_finds_its_run_busy_at_every_delivery_becomes_a_dead_letter() {
    let mut busy = BusyRun::open(&["--deliveries-max", "3", "--lock-busy-retry", "fixed:50ms"]).await;
    let job = busy.jobs[0].clone();
    let reported_at = Instant::now();
    busy.report(&job).await;
    for delivery in 1..=2 {
        let nak = busy.next_nak(reported_at).await;
        assert_eq!((&nak.job, nak.delivery, nak.delay), (&job, delivery, Duration::from_millis(50)));
    }
    let listed = || dead_letters(&busy.machines.replicas[1]);
    until("the result is a dead letter", async || !listed().is_empty()).await;
    let letter = listed().remove(0);
    assert_eq!((&letter["job_id"], &letter["attempts"]), (&json!(job.to_string()), &json!(3)));
    assert_eq!(
        (&letter["reason_code"], &letter["last_error"]),
        (&json!("result_unhandled"), &json!("the run was busy"))
    );
    busy.machines.redis.command(&["DEL", &busy.lock()]).await.unwrap();
    let ended = busy.caller.ended(&busy.run).await;
    assert_eq!(ended["status"], "failed", "the job fails with its dead letter: {ended}");
}

#[tokio::test]
async fn a_result_over_http_waits_for_its_run_is_deferred_and_then_recorded() {
    let arguments = ["--run-strategy", "lock", "--lock-busy-max-wait-ms", "700"];
    let machines = Machines::start_with(2, &arguments).await;
    let caller = machines.replicas[0].caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    let lock = format!("cordum:wf:run:lock:{run}");
    machines.redis.command(&["SET", &lock, "another client"]).await.unwrap();
    let began = Instant::now();
    caller.complete(&job, &json!("done")).await.expect(200);
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    // The result is in the store: neither the worker nor this replica is needed any more.
    let id = job["job_id"].as_str().unwrap();
    let waiting = machines.redis.command(&["ZSCORE", "wf:put_off:{acme}", id]).await.unwrap();
    assert!(waiting.parse::<f64>().is_ok(), "{waiting}");
    let failed = json!({"fence": job["fence"], "error": "no", "retryable": false});
    let other = caller.post(&format!("/jobs/{id}/fail"), failed).await.expect(409);
    assert_eq!(other.text("code"), "stale_fence", "the first result counts");
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
async fn results_at_once_over_three_replicas_are_each_recorded_once() {
    let machines =
        Machines::start_with(3, &["--run-strategy", "lock", "--lock-busy-retry", "full_jitter:20ms:1s"])
            .await;
    fan_in(&machines.callers("acme")).await;
}
