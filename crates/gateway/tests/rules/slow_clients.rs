//! Clients that take their time are not waited for.

use std::time::Duration;

use interlock_gateway::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Answer, PATIENCE};
use crate::server::{Server, local};

const SHORT: Duration = Duration::from_millis(100);

/// What the server says to a client that sends this much and then nothing, until it hangs up.
async fn last_words(server: &Server, sent: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    closed.expect("the server hangs up").ok();
    bytes
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_hung_up_on() {
    let server = Server::with(Settings { idle_timeout: SHORT, ..local() }, None).await.unwrap();
    assert!(last_words(&server, "").await.is_empty());
}

#[tokio::test]
async fn a_client_that_sends_half_a_header_is_hung_up_on() {
    let server = Server::with(Settings { header_timeout: SHORT, ..local() }, None).await.unwrap();
    assert!(last_words(&server, "GET /healthz HTTP/1.1\r\nhost: ").await.is_empty());
}

#[tokio::test]
async fn a_client_that_stays_after_its_answer_is_hung_up_on() {
    let server = Server::with(Settings { idle_timeout: SHORT, ..local() }, None).await.unwrap();
    let words = last_words(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(Answer::parse(&words).status, 200);
}

#[tokio::test]
async fn a_client_that_drips_its_second_header_is_hung_up_on() {
    let server = Server::with(Settings { header_timeout: SHORT, ..local() }, None).await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    stream.readable().await.unwrap();
    let drip = async {
        // One byte at a time, for as long as somebody listens.
        while stream.write_all(b"G").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(PATIENCE, drip).await.expect("the server hangs up");
}

#[tokio::test]
async fn a_body_may_take_longer_than_a_header() {
    let server = Server::with(Settings { header_timeout: SHORT, body_timeout: SHORT * 4, ..local() }, None)
        .await
        .unwrap();
    let head = "POST /api/v1/workflows HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    Answer::parse(&last_words(&server, head).await).problem(408, "request_timeout");
}

#[tokio::test]
async fn a_client_that_sends_half_a_body_is_told_and_hung_up_on() {
    let server = Server::with(Settings { body_timeout: SHORT, ..local() }, None).await.unwrap();
    let head = "POST /api/v1/workflows HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    let words = last_words(&server, head).await;
    Answer::parse(&words).problem(408, "request_timeout");
}

#[tokio::test]
async fn a_connection_too_many_is_told_to_come_back() {
    let server = Server::with(Settings { connections_max: 1, ..local() }, None).await.unwrap();
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let words = last_words(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    Answer::parse(&words).problem(503, "gate_unavailable");
    drop(first);
    // Its place comes free; until then the answer stays the same.
    let again = async {
        loop {
            let words =
                last_words(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            if !words.is_empty() && Answer::parse(&words).status == 200 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("a place comes free");
}
