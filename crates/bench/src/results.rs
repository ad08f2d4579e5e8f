//! Many results for one run beside as many results for a run each, over three replicas on a real Redis and a real NATS.
//!
//! The holder of a run takes all results that have come, so that many results for one run cost hardly more time than as
//! many results for a run each.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::load::{Measured, micros, sequential};
use crate::replicas::Replicas;
use crate::report::{Counted, Report};
use crate::{Arguments, progress};

pub(crate) const ONE_RUN: &str = "results for one run";
pub(crate) const MANY_RUNS: &str = "results for a run each";
pub(crate) const WRITES: &str = "writes of the one run";
pub(crate) const RETRIES: &str = "retries of results whose run was busy";

/// Workers that report at once, each on a connection of its own to one of the replicas.
const WORKERS: usize = 32;

/// How often it is looked whether the runs have ended: seldom enough to cost nothing, and for both alike.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long anything may take before it is given up.
const LIMIT: Duration = Duration::from_mins(2);

pub(crate) async fn measure(arguments: &Arguments, binary: &Path) -> Result<Report> {
    let replicas = Replicas::start(binary, 3).await?;
    prepare(&replicas).await?;
    let mut report = Report::default();
    let progress = progress::bar(arguments.rounds as u64 * 2)?;
    for round in 0..arguments.rounds {
        let mut kinds = [Kind::OneRun, Kind::RunEach];
        // Neither is always the first after the other.
        kinds.rotate_left(round % 2);
        for kind in kinds {
            progress.set_message(kind.name());
            let began = Began::start(&replicas, kind, arguments.results_count).await?;
            let (measured, took) = began.report_all(&replicas).await?;
            report.add(kind.name(), measured);
            let count = u64::try_from(took.as_millis())?;
            report.counted.push(Counted { name: kind.took(), count });
            if let Some(run) = began.only_run() {
                // The first turn, which dispatches, is none of the results'.
                let count = replicas.run_version(run).await?.saturating_sub(1);
                report.counted.push(Counted { name: WRITES, count });
            }
            progress.inc(1);
        }
    }
    let retries = replicas.metric("lock_busy_retry_count").await?;
    report.counted.push(Counted { name: RETRIES, count: retries });
    progress.finish_and_clear();
    Ok(report)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneRun,
    RunEach,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::OneRun => ONE_RUN,
            Self::RunEach => MANY_RUNS,
        }
    }

    fn took(self) -> &'static str {
        match self {
            Self::OneRun => "ms for the results for one run",
            Self::RunEach => "ms for the results for a run each",
        }
    }

    /// Of its workflow, and of the queue of its jobs.
    fn word(self) -> &'static str {
        match self {
            Self::OneRun => "shared",
            Self::RunEach => "alone",
        }
    }
}

async fn prepare(replicas: &Replicas) -> Result<()> {
    let mut connection = replicas.connect(0).await?;
    let limits = json!({"limits": {"max_concurrent_runs": 1_000_000}});
    let limits = json!({"scope": "org", "scope_id": "default", "data": limits});
    connection.call(Method::PUT, "/api/v1/config", &limits).await?;
    for kind in [Kind::OneRun, Kind::RunEach] {
        let mut step = json!({"type": "worker", "topic": kind.word()});
        if kind == Kind::OneRun {
            step["for_each"] = json!("input.items");
        }
        let workflow = json!({"id": kind.word(), "name": kind.word(), "steps": {"work": step}});
        connection.call(Method::POST, "/api/v1/workflows", &workflow).await?;
    }
    Ok(())
}

/// Runs that wait for results, and the jobs that these are of, all claimed.
struct Began {
    kind: Kind,
    runs: Vec<String>,
    jobs: Vec<Value>,
}

impl Began {
    async fn start(replicas: &Replicas, kind: Kind, count: usize) -> Result<Self> {
        let mut connection = replicas.connect(0).await?;
        let (runs, input) = match kind {
            Kind::OneRun => (1, json!({"items": (0..count).collect::<Vec<_>>()})),
            Kind::RunEach => (count, json!({})),
        };
        let path = format!("/api/v1/workflows/{}/runs", kind.word());
        let mut started = Vec::with_capacity(runs);
        for _ in 0..runs {
            let answer = connection.call(Method::POST, &path, &input).await?;
            started.push(answer["run_id"].as_str().context("a start names its run")?.to_owned());
        }
        let claim = json!({"topics": [kind.word()], "max_jobs": 100, "wait_ms": 20_000, "lease_ms": 600_000});
        let mut jobs = Vec::with_capacity(count);
        while jobs.len() < count {
            let claimed = connection.call(Method::POST, "/api/v1/workers/bench/claim", &claim).await?;
            let claimed = claimed["jobs"].as_array().context("a claim answers with jobs")?;
            if claimed.is_empty() {
                bail!("only {} of {count} jobs came", jobs.len());
            }
            jobs.extend(claimed.iter().cloned());
        }
        Ok(Self { kind, runs: started, jobs })
    }

    fn only_run(&self) -> Option<&str> {
        match self.runs.as_slice() {
            [run] => Some(run),
            _ => None,
        }
    }

    /// From the first result until the last run has ended.
    async fn report_all(&self, replicas: &Replicas) -> Result<(Measured, Duration)> {
        let mut looking = replicas.connect(0).await?;
        let mut connections = Vec::with_capacity(WORKERS);
        for number in 0..WORKERS {
            connections.push(replicas.connect(number).await?);
        }
        let jobs = Arc::new(Mutex::new(self.jobs.clone()));
        let began = Instant::now();
        let mut workers = JoinSet::new();
        for connection in connections {
            workers.spawn(report_some(connection, jobs.clone()));
        }
        let mut times = Vec::with_capacity(self.jobs.len());
        while let Some(ended) = workers.join_next().await {
            times.extend(ended??);
        }
        let running =
            format!("/api/v1/workflow-runs?status=running&workflow_id={}&limit=1", self.kind.word());
        loop {
            let page = looking.call(Method::GET, &running, &Value::Null).await?;
            if page["items"].as_array().is_some_and(Vec::is_empty) {
                let took = began.elapsed();
                return Ok((sequential(times, took).await?, took));
            }
            if began.elapsed() > LIMIT {
                bail!("the runs have not ended after {LIMIT:?}: {page}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Reports on jobs until none is left. Returns the microseconds that each report took.
async fn report_some(mut connection: Connection, jobs: Arc<Mutex<Vec<Value>>>) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    loop {
        let next = jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let Some(job) = next else { return Ok(times) };
        let id = job["job_id"].as_str().context("a job has an id")?;
        let path = format!("/api/v1/jobs/{}/complete", id.replace('[', "%5B").replace(']', "%5D"));
        let body = json!({"fence": job["fence"], "output": {}});
        let began = Instant::now();
        connection.call(Method::POST, &path, &body).await?;
        times.push(micros(began));
    }
}
