//! One-step runs per second: started, claimed and completed over HTTP.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::load::{Measured, micros, run};
use crate::server::{Server, WORKFLOW};

const WORKERS: usize = 8;
const STARTERS: usize = 8;

/// Runs that ended per second, with the latency of a job from its claim to the answer to its result.
pub(crate) async fn one_step(binary: &Path, time: Duration) -> Result<Measured> {
    let server = Server::interlock(binary, 1_000).await?;
    let began = Instant::now();
    let mut starters = tokio::task::JoinSet::new();
    for _ in 0..STARTERS {
        starters.spawn(keep_starting(server.address.clone(), began + time));
    }
    let address = server.address.clone();
    let measured = run(WORKERS, time, move |number, until| work(address.clone(), number, until)).await?;
    while let Some(ended) = starters.join_next().await {
        ended??;
    }
    Ok(measured)
}

async fn keep_starting(address: String, until: Instant) -> Result<()> {
    let mut connection = Connection::open(&address).await?;
    let path = format!("/api/v1/workflows/{WORKFLOW}/runs");
    while Instant::now() < until {
        let (status, body) = connection.send(Method::POST, &path, Bytes::from_static(b"{}")).await?;
        match status {
            StatusCode::OK => {}
            // Enough is waiting; the workers are the measure here.
            StatusCode::TOO_MANY_REQUESTS => tokio::time::sleep(Duration::from_millis(2)).await,
            other => bail!("a start answered {other}: {}", String::from_utf8_lossy(&body)),
        }
    }
    Ok(())
}

async fn work(address: String, number: usize, until: Instant) -> Result<Vec<u64>> {
    let mut connection = Connection::open(&address).await?;
    let path = format!("/api/v1/workers/bench-{number}/claim");
    let claim = json!({"topics": ["bench"], "max_jobs": 8, "wait_ms": 100});
    let mut seen = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let answer = connection.call(Method::POST, &path, &claim).await?;
        for job in answer["jobs"].as_array().unwrap_or(&Vec::new()) {
            complete(&mut connection, job).await?;
            seen.push(micros(began));
        }
    }
    Ok(seen)
}

async fn complete(connection: &mut Connection, job: &Value) -> Result<()> {
    let Some(id) = job["job_id"].as_str() else { bail!("a job without an id: {job}") };
    let result = json!({"fence": job["fence"], "output": {"ok": true}});
    connection.call(Method::POST, &format!("/api/v1/jobs/{id}/complete"), &result).await?;
    Ok(())
}
