//! The gateway closes the connections of slow clients.

use std::time::Duration;

use interlock_gateway::Settings;
use interlock_poll::{LIMIT, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Answer;
use crate::server::{Server, local};

const SHORT: Duration = Duration::from_millis(100);

/// What the server sends to a client that sends only this, until it closes the connection.
async fn response_to(server: &Server, sent: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let closed = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await;
    closed.expect("the server closes the connection").ok();
    bytes
}

#[tokio::test]
async fn the_connection_of_a_client_that_sends_nothing_is_closed() {
    let server = Server::with(Settings { idle_timeout: SHORT, ..local() }, None).await.unwrap();
    assert!(response_to(&server, "").await.is_empty());
}

#[tokio::test]
async fn the_connection_of_a_client_that_sends_half_a_header_is_closed() {
    let server = Server::with(Settings { header_timeout: SHORT, ..local() }, None).await.unwrap();
    assert!(response_to(&server, "GET /healthz HTTP/1.1\r\nhost: ").await.is_empty());
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_response() {
    let server = Server::with(Settings { idle_timeout: SHORT, ..local() }, None).await.unwrap();
    let response = response_to(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(Answer::parse(&response).status, 200);
}

#[tokio::test]
async fn the_connection_of_a_client_that_sends_a_second_header_too_slowly_is_closed() {
    let server = Server::with(Settings { header_timeout: SHORT, ..local() }, None).await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stream.readable().await.unwrap();
    let drip = async {
        // One byte at a time, until the connection is closed.
        while stream.write_all(b"G").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(LIMIT, drip).await.expect("the server closes the connection");
}

#[tokio::test]
async fn a_body_may_take_longer_than_a_header() {
    let server = Server::with(Settings { header_timeout: SHORT, body_timeout: SHORT * 4, ..local() }, None)
        .await
        .unwrap();
    let head = "POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    Answer::parse(&response_to(&server, head).await).problem(408, "request_timeout");
}

#[tokio::test]
async fn half_a_body_is_answered_with_a_timeout() {
    let server = Server::with(Settings { body_timeout: SHORT, ..local() }, None).await.unwrap();
    let head = "POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    let response = response_to(&server, head).await;
    Answer::parse(&response).problem(408, "request_timeout");
}

#[tokio::test]
async fn a_connection_above_the_limit_is_refused_until_another_closes() {
    refused_until_another_closes(Settings { connections_max: 1, ..local() }).await;
}

#[tokio::test]
async fn a_client_with_too_many_connections_is_refused_until_it_closes_one() {
    refused_until_another_closes(Settings { connections_per_address_max: 1, ..local() }).await;
}

async fn refused_until_another_closes(settings: Settings) {
    let server = Server::with(settings, None).await.unwrap();
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let response = response_to(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let refused = Answer::parse(&response);
    refused.problem(503, "too_many_connections");
    assert!(!refused.json()["error"].as_str().unwrap().contains("concurrency gate"), "{refused:?}");
    drop(first);
    until("a connection is accepted again", async || {
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let response = response_to(&server, request).await;
        !response.is_empty() && Answer::parse(&response).status == 200
    })
    .await;
}
