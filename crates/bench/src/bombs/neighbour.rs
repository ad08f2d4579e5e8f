//! The tenant that only wants to work: it starts runs at a steady pace, and its worker ends them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::load::micros;

const CLIENTS: u32 = 8;

/// Between two starts of one client.
const PACE: Duration = Duration::from_millis(200);

pub(super) async fn prepare(connection: &mut Connection) -> Result<()> {
    let steps = json!({"work": {"type": "worker", "topic": "work"}});
    let workflow = json!({"id": "job", "name": "job", "steps": steps});
    connection.call(Method::POST, "/api/v1/workflows", &workflow).await.map(drop)
}

/// How long starts took, from the moment that each was due: one that waits for the one before it is late, too.
pub(super) struct Starts(Histogram<u64>);

impl Starts {
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn p99_ms(&self) -> f64 {
        self.milliseconds(0.99)
    }

    pub(super) fn shown(&self) -> String {
        format!("{:.1} ms, {:.1} ms", self.milliseconds(0.5), self.p99_ms())
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of a measurement are far below 2^52")]
    fn milliseconds(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1_000.0
    }
}

/// Starts runs for this time, each expected to succeed. On a thread of its own: what bombs cost their thrower must not
/// delay what is measured.
pub(super) async fn start_runs(address: &str, key: &str, time: Duration) -> Result<Starts> {
    let (address, key) = (address.to_owned(), key.to_owned());
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(start_and_work(&address, &key, time))
    };
    tokio::task::spawn_blocking(run).await?
}

async fn start_and_work(address: &str, key: &str, time: Duration) -> Result<Starts> {
    let until = Instant::now() + time;
    let worker = tokio::spawn(work(address.to_owned(), key.to_owned()));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let connection = Connection::open(address).await?.with_key(key)?;
        clients.spawn(start_some(connection, PACE * number / CLIENTS, until));
    }
    let mut times = Histogram::new(3)?;
    while let Some(ended) = clients.join_next().await {
        for micros in ended?? {
            times.record(micros.max(1))?;
        }
    }
    worker.abort();
    Ok(Starts(times))
}

async fn start_some(mut connection: Connection, first: Duration, until: Instant) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    let mut due = Instant::now() + first;
    while due < until {
        tokio::time::sleep_until(due.into()).await;
        connection.call(Method::POST, "/api/v1/workflows/job/runs", &json!({})).await?;
        times.push(micros(due));
        due += PACE;
    }
    Ok(times)
}

/// Ends the jobs of the runs.
async fn work(address: String, key: String) -> Result<()> {
    let mut connection = Connection::open(&address).await?.with_key(&key)?;
    let claim = json!({"topics": ["work"], "max_jobs": 50, "wait_ms": 1_000, "lease_ms": 60_000});
    loop {
        let claimed = connection.call(Method::POST, "/api/v1/workers/neighbour/claim", &claim).await?;
        for job in claimed["jobs"].as_array().context("a claim answers with jobs")? {
            let id = job["job_id"].as_str().context("a job has an id")?;
            let body = json!({"fence": job["fence"], "output": {}});
            connection.call(Method::POST, &format!("/api/v1/jobs/{id}/complete"), &body).await?;
        }
    }
}
