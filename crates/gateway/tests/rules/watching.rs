//! Waiting for a run by its stream of events.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use interlock_poll::LIMIT;

use crate::server::Server;

/// An open stream of events.
pub(crate) struct Watch {
    stream: TcpStream,
    read: String,
}

/// One event of the stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamedEvent {
    pub id: u64,
    pub kind: String,
    pub item: Value,
}

impl Watch {
    pub(crate) async fn open(server: &Server, run: &str, last: Option<u64>) -> Self {
        let mut request = server.get(&format!("/api/v1/workflow-runs/{run}/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", &last.to_string());
        }
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&request.written()).await.unwrap();
        Self { stream, read: String::new() }
    }

    /// The next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<StreamedEvent> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// All events until the end of the stream.
    pub(crate) async fn rest(mut self) -> Vec<StreamedEvent> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }

    /// Reads until the stream contains `text`.
    pub(crate) async fn until_text(&mut self, text: &str) {
        while !self.read.contains(text) {
            assert!(self.more().await, "the stream ended before {text:?}: {}", self.read);
        }
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        let read = tokio::time::timeout(LIMIT, self.stream.read(&mut bytes)).await.expect("an event in time");
        let count = read.unwrap();
        self.read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        count > 0
    }

    fn take(&mut self) -> Option<StreamedEvent> {
        let begin = self.read.find("id: ")?;
        let end = begin + self.read[begin..].find("\n\n")?;
        let block = self.read[begin..end].to_owned();
        self.read.drain(..end + 2);
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        Some(StreamedEvent {
            id: field("id: ").parse().unwrap(),
            kind: field("event: "),
            item: serde_json::from_str(&field("data: ")).unwrap(),
        })
    }
}

/// Follows the run's events until the run matches.
pub(crate) async fn until(server: &Server, run: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let mut watch = Watch::open(server, run, None).await;
    loop {
        let view = server.view(run).await;
        if matches(&view) {
            return view;
        }
        assert!(watch.next().await.is_some(), "the run ended as {view}");
    }
}
