//! Waiting for a run without sleeping: its own events say when to look.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::PATIENCE;
use crate::server::Server;

/// An open stream of events.
pub(crate) struct Watch {
    stream: TcpStream,
    read: String,
}

/// One event, as it stood on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub id: u64,
    pub kind: String,
    pub item: Value,
}

impl Watch {
    pub(crate) async fn open(server: &Server, run: &str, last: Option<u64>) -> Self {
        let mut ask = server.get(&format!("/api/v1/workflow-runs/{run}/events"));
        if let Some(last) = last {
            ask = ask.header("last-event-id", &last.to_string());
        }
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&ask.written()).await.unwrap();
        Self { stream, read: String::new() }
    }

    /// The next event. None: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Everything until the end.
    pub(crate) async fn rest(mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }

    /// Reads until `text` has come by, whatever it is part of.
    pub(crate) async fn until_text(&mut self, text: &str) {
        while !self.read.contains(text) {
            assert!(self.more().await, "the stream ended before {text:?}: {}", self.read);
        }
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        let read =
            tokio::time::timeout(PATIENCE, self.stream.read(&mut bytes)).await.expect("an event in time");
        let count = read.unwrap();
        self.read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        count > 0
    }

    fn take(&mut self) -> Option<Seen> {
        let begin = self.read.find("id: ")?;
        let end = begin + self.read[begin..].find("\n\n")?;
        let block = self.read[begin..end].to_owned();
        self.read.drain(..end + 2);
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        Some(Seen {
            id: field("id: ").parse().unwrap(),
            kind: field("event: "),
            item: serde_json::from_str(&field("data: ")).unwrap(),
        })
    }
}

/// Follows the run until it looks as asked.
pub(crate) async fn until(server: &Server, run: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut watch = Watch::open(server, run, None).await;
    loop {
        let view = server.view(run).await;
        if is_so(&view) {
            return view;
        }
        assert!(watch.next().await.is_some(), "the run ended as {view}");
    }
}
