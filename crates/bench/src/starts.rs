//! Starts per second: all admitted, all refused, and the empty handler that is their ceiling.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};

use crate::load::{Measured, micros, run};
use crate::server::{Server, WORKFLOW};

const INPUT: &str = r#"{"question":"what is the answer?","n":42}"#;

pub(crate) async fn empty_handler(time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::empty().await?;
    ask(&server, "/".to_owned(), StatusCode::OK, (time, clients)).await
}

pub(crate) async fn admitted(binary: &Path, time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::interlock(binary, 1_000_000_000).await?;
    ask(&server, format!("/api/v1/workflows/{WORKFLOW}/runs"), StatusCode::OK, (time, clients)).await
}

pub(crate) async fn refused(binary: &Path, time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::interlock(binary, 1).await?;
    let path = format!("/api/v1/workflows/{WORKFLOW}/runs");
    let input = serde_json::from_str(INPUT)?;
    server.connect().await?.call(Method::POST, &path, &input).await?;
    ask(&server, path, StatusCode::TOO_MANY_REQUESTS, (time, clients)).await
}

/// Every answer must be the expected one: a figure of something else would be worth nothing.
async fn ask(
    server: &Server,
    path: String,
    expected: StatusCode,
    (time, clients): (Duration, usize),
) -> Result<Measured> {
    let address = server.address.clone();
    run(clients, time, move |_, until| {
        let (address, path) = (address.clone(), path.clone());
        async move {
            let mut connection = crate::connection::Connection::open(&address).await?;
            let mut seen = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                let (status, body) =
                    connection.send(Method::POST, &path, Bytes::from_static(INPUT.as_bytes())).await?;
                if status != expected {
                    bail!("expected {expected}, got {status}: {}", String::from_utf8_lossy(&body));
                }
                seen.push(micros(began));
            }
            Ok(seen)
        }
    })
    .await
}
