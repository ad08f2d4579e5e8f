//! Shutdown: stop accepting, finish requests in progress.

use std::time::Duration;

use interlock_gateway::Settings;
use interlock_poll::{LIMIT, until};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::Answer;
use crate::server::{Server, local, one_step};
use crate::watching::Watch;

async fn has_closed(server: &mut Server) {
    tokio::time::timeout(LIMIT, &mut server.serving).await.expect("the gateway closes").unwrap();
}

#[tokio::test]
async fn a_waiting_claim_is_answered_without_jobs() {
    let mut server = Server::start().await;
    let body = json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 60_000});
    let claim = tokio::spawn(server.post("/api/v1/workers/w/claim").json(&body).send());
    // Once the worker is known, its claim has reached the store.
    until("the worker is known", async || server.get("/api/v1/workers/w").send().await.status == 200).await;
    server.shutdown.cancel();
    assert_eq!(claim.await.unwrap().ok(200), json!({"jobs": []}));
    has_closed(&mut server).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "the gateway still listens");
}

#[tokio::test]
async fn an_event_stream_ends_with_the_shutdown() {
    let mut server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let mut watch = Watch::open(&server, &run, None).await;
    watch.next().await.unwrap();
    server.shutdown.cancel();
    watch.rest().await;
    has_closed(&mut server).await;
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_shutdown() {
    let mut server =
        Server::with(Settings { shutdown_grace: Duration::from_mins(1), ..local() }, None).await.unwrap();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    kept.readable().await.unwrap();
    server.shutdown.cancel();
    has_closed(&mut server).await;
    silent.shutdown().await.ok();
}

#[tokio::test]
async fn an_endless_request_is_cut_off_after_the_grace_period() {
    let settings = Settings { shutdown_grace: Duration::from_millis(50), ..local() };
    let mut server = Server::with(settings, None).await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let half = "POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n";
    stream.write_all(half.as_bytes()).await.unwrap();
    // The interim answer says that the body is being read.
    stream.readable().await.unwrap();
    server.shutdown.cancel();
    has_closed(&mut server).await;
}

#[tokio::test]
async fn a_request_in_progress_is_finished() {
    let mut server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = one_step("wf").to_string();
    let head = format!(
        "POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    server.shutdown.cancel();
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = tokio::time::timeout(LIMIT, Answer::read(&mut stream)).await.unwrap();
    assert_eq!(answer.status, 100);
    assert_eq!(Answer::parse(&answer.body).ok(201), json!({"id": "wf", "version": 1}));
    has_closed(&mut server).await;
}
