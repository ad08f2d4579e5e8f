//! From one holder to the next: from the release to the answer that the next holder gets.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http::Method;
use serde_json::Value;

use super::client::LockClient;
use crate::connection::Connection;
use crate::load::{Measured, sequential};
use crate::replicas::Replicas;

const RESOURCE: &str = "passed-on";

/// Two clients of different replicas pass the lock to each other.
pub(super) async fn measure(replicas: &Replicas, time: Duration) -> Result<Measured> {
    let (mut holder, mut next) =
        (LockClient::connect(replicas, 0).await?, LockClient::connect(replicas, 1).await?);
    let mut looking = replicas.connect(2).await?;
    let mut times = Vec::new();
    let mut token = holder.acquire(RESOURCE).await?;
    let until = Instant::now() + time;
    while Instant::now() < until {
        let waiting = tokio::spawn(async move {
            let token = next.acquire(RESOURCE).await;
            (next, token, Instant::now())
        });
        until_one_waits(&mut looking).await?;
        let released = Instant::now();
        holder.release(RESOURCE, &token).await?;
        let (client, granted, answered) = waiting.await?;
        times.push(u64::try_from(answered.duration_since(released).as_micros())?);
        (next, holder, token) = (holder, client, granted?);
    }
    holder.release(RESOURCE, &token).await?;
    sequential(times, time).await
}

async fn until_one_waits(connection: &mut Connection) -> Result<()> {
    loop {
        let path = format!("/api/v1/locks?resource={RESOURCE}");
        let lock = connection.call(Method::GET, &path, &Value::Null).await?;
        if lock["waiting"].as_u64().context("a lock tells who waits")? > 0 {
            return Ok(());
        }
    }
}
