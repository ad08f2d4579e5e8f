//! A policy service that a test starts, stops and starts again on the same port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use interlock_poll::until;
use interlock_servers::Port;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// All questions, answered or not.
type Questions = Arc<Mutex<Vec<Value>>>;

/// What it answers; null means no answer at all.
type Decide = fn(&Value) -> Value;

pub(super) struct PolicyService {
    port: Port,
    questions: Questions,
    decide: Decide,
    serving: Option<AbortOnDropHandle<()>>,
}

impl PolicyService {
    /// Has an address and does not listen yet.
    pub(super) async fn stopped(decide: Decide) -> Self {
        let mut service = Self::started(decide).await;
        service.stop().await;
        service
    }

    pub(super) async fn started(decide: Decide) -> Self {
        let port = Port::reserve().unwrap();
        let mut service = Self { port, questions: Questions::default(), decide, serving: None };
        service.start().await;
        service
    }

    pub(super) async fn start(&mut self) {
        // The listener before may live on for a moment in a child process that another test is just starting.
        let bind = async || TcpListener::bind(self.address()).await.ok();
        let listener = until("the reserved port is free", bind).await;
        let serve = serve(listener, self.questions.clone(), self.decide);
        self.serving = Some(AbortOnDropHandle::new(tokio::spawn(serve)));
    }

    pub(super) async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            let _cancelled = serving.await;
        }
    }

    /// Changes the answers from the next start on.
    pub(super) fn answer_with(&mut self, decide: Decide) {
        self.decide = decide;
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/decide", self.address())
    }

    pub(super) fn questions(&self) -> Vec<Value> {
        self.questions.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, questions: Questions, decide: Decide) {
    let mut answering = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        answering.spawn(answer(stream, questions.clone(), decide));
    }
}

async fn answer(mut stream: TcpStream, questions: Questions, decide: Decide) {
    let Some((head, question)) = read(&mut stream).await else { return };
    let is_known = head.to_lowercase().contains("authorization: bearer let-me-in");
    questions.lock().unwrap().push(question.clone());
    let decided = decide(&question);
    if decided.is_null() {
        std::future::pending::<()>().await;
    }
    let (status, body) = if is_known { ("200 OK", decided) } else { ("401 Unauthorized", json!({})) };
    let body = body.to_string();
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    let _gone = stream.write_all(text.as_bytes()).await;
}

/// The head and the JSON body of one request.
async fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let mut some = [0; 4_096];
        let count = stream.read(&mut some).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(question) = serde_json::from_str(body)
        {
            return Some((head.to_owned(), question));
        }
    }
}
