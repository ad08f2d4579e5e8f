//! A scripted gateway, which records the requests.

use std::sync::{Arc, Mutex};

use interlock_api::client::{Client, ClientSettings};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The path without its base.
    pub(crate) path: String,
    pub(crate) last_event_id: Option<String>,
    pub(crate) body: Value,
}

pub(crate) enum Answer {
    Json(u16, Value),
    /// Written as they are, before the connection ends.
    Events(&'static str),
    HangUp,
    /// Nothing, until the client disconnects.
    Silence,
}

pub(crate) struct ScriptedGateway {
    pub(crate) client: Client,
    asked: Arc<Mutex<Vec<Request>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl ScriptedGateway {
    pub(crate) async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client =
            Client::new(ClientSettings::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, remembered) = (Arc::new(script), asked.clone());
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, remembered) = (script.clone(), remembered.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let request = read(&mut stream).await;
                    remembered.lock().unwrap().push(request.clone());
                    write(&mut stream, script(&request)).await;
                });
            }
        });
        Self { client, asked, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// The requests so far to paths with this end.
    pub(crate) fn asked(&self, end: &str) -> Vec<Request> {
        self.asked.lock().unwrap().iter().filter(|request| request.path.ends_with(end)).cloned().collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Request {
    let mut first = String::new();
    stream.read_line(&mut first).await.unwrap();
    let path = first.split(' ').nth(1).unwrap().trim_start_matches("/api/v1").to_owned();
    let (mut length, mut last_event_id) = (0, None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "last-event-id" => last_event_id = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Request { path, last_event_id, body: serde_json::from_slice(&body).unwrap_or_default() }
}

async fn write(stream: &mut BufReader<TcpStream>, answer: Answer) {
    let text = match answer {
        Answer::HangUp => return,
        Answer::Silence => {
            let mut unread = [0];
            // Only the end can follow.
            let _ended = stream.read(&mut unread).await;
            return;
        }
        Answer::Events(text) => {
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{text}")
        }
        Answer::Json(status, body) => {
            let body = body.to_string();
            let length = body.len();
            format!("HTTP/1.1 {status} .\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        }
    };
    // The client may have disconnected first.
    let _sent = stream.write_all(text.as_bytes()).await;
    let _closed = stream.shutdown().await;
}
