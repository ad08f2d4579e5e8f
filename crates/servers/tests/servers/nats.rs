//! NATS servers start, answer, restart with their streams, and end with their guards.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use interlock_servers::{Nats, NatsOptions, NatsRelease};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Publishes over a raw connection and returns the first answer.
async fn request(nats: &Nats, subject: &str, body: &str) -> Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", nats.port())).await?);
    let commands = format!(
        "CONNECT {{\"verbose\":false,\"user\":\"user\",\"pass\":\"word\"}}\r\nSUB answer 1\r\n\
         PUB {subject} answer {}\r\n{body}\r\n",
        body.len()
    );
    stream.write_all(commands.as_bytes()).await?;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line).await? > 0, "the server closed the connection");
        ensure!(!line.starts_with("-ERR"), "{line}");
        if let Some(message) = line.strip_prefix("MSG ") {
            let length = message.split_whitespace().last().context("a message has a length")?;
            let mut answer = vec![0; length.parse()?];
            stream.read_exact(&mut answer).await?;
            return Ok(String::from_utf8(answer)?);
        }
    }
}

/// Kills a server that has a stream with a message, and asserts that it restarts with it. Returns its version.
async fn restart(release: NatsRelease) -> Result<String> {
    let mut nats = Nats::start(NatsOptions { release, ..NatsOptions::default() }).await?;
    let (port, first) = (nats.port(), nats.pid());
    let stream = r#"{"name":"kept","subjects":["kept"],"storage":"file"}"#;
    request(&nats, "$JS.API.STREAM.CREATE.kept", stream).await?;
    let answer = request(&nats, "kept", "message").await?;
    assert!(answer.contains("\"seq\":1"), "{answer}");

    nats.kill().await?;
    assert!(!PathBuf::from(format!("/proc/{first}")).exists());
    nats.start_again().await?;

    assert_eq!(nats.port(), port);
    let answer = request(&nats, "$JS.API.STREAM.INFO.kept", "").await?;
    assert!(answer.contains("\"messages\":1"), "{answer}");
    Ok(nats.version().to_owned())
}

#[tokio::test]
async fn both_releases_restart_with_their_streams() {
    let debian = restart(NatsRelease::Debian).await.unwrap();
    let newest = restart(NatsRelease::Newest).await.unwrap();
    assert!(debian.starts_with("2.") && newest.starts_with("2.") && debian != newest, "{debian}, {newest}");
}

#[tokio::test]
async fn a_nats_server_ends_with_its_guard() {
    let nats = tokio::spawn(Nats::start(NatsOptions::default())).await.unwrap().unwrap();
    let (process, folder) = (PathBuf::from(format!("/proc/{}", nats.pid())), nats.folder().to_owned());
    assert!(process.exists() && folder.exists());
    nats.pause().unwrap();
    nats.resume().unwrap();
    drop(nats);
    assert!(!process.exists() && !folder.exists());
}

#[tokio::test]
async fn options_reach_the_server() {
    let user = Some(("user".to_owned(), "word".to_owned()));
    let nats = Nats::start(NatsOptions { jet_stream: false, user, ..NatsOptions::default() }).await.unwrap();
    assert_eq!(nats.url(), format!("nats://user:word@127.0.0.1:{}", nats.port()));
    assert_eq!(request(&nats, "answer", "received by the sender").await.unwrap(), "received by the sender");
}
