//! One trace per run, from the start to the last result, and no trace unless it is configured.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use interlock_poll::until;
use prost::Message;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::machines::Machines;
use super::server::{BINARY, Caller, Server};

/// The parts of an export request that these tests read.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    began: u64,
    #[prost(fixed64, tag = "8")]
    ended: u64,
}

/// A collector that keeps all spans.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = spans.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(receive(connection, kept.clone()));
            }
        });
        Self { url, spans }
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The spans by name, once each of `names` is among them.
    async fn with(&self, names: &[&str]) -> BTreeMap<String, Span> {
        until(&format!("the spans {names:?} arrive"), async || {
            let spans: BTreeMap<_, _> =
                self.spans().into_iter().map(|span| (span.name.clone(), span)).collect();
            if names.iter().all(|name| spans.contains_key(*name)) {
                Ok(spans)
            } else {
                Err(spans.into_keys())
            }
        })
        .await
    }
}

/// Reads the requests of one connection.
async fn receive(connection: TcpStream, kept: Arc<Mutex<Vec<Span>>>) {
    let mut connection = BufReader::new(connection);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = connection.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("post /v1/traces "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        connection.read_exact(&mut body).await.unwrap();
        let export = Export::decode(&*body).unwrap();
        let scopes = export.resources.into_iter().flat_map(|resource| resource.scopes);
        kept.lock().unwrap_or_else(PoisonError::into_inner).extend(scopes.flat_map(|scope| scope.spans));
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        connection.write_all(answer.as_bytes()).await.unwrap();
    }
}

const NAMES: [&str; 5] = ["start", "admission", "dispatch", "claim", "result"];

/// Starts a run under a parent span, if any, and completes its job. Returns the run and the job's `traceparent`.
async fn one_run(starter: &Caller, worker: &Caller, parent: Option<&str>) -> (String, Option<String>) {
    starter.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let url = format!("{}/api/v1/workflows/job/runs", starter.base);
    let mut request =
        reqwest::Client::new().post(url).header("X-Tenant-ID", &starter.tenant).json(&json!({}));
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    let answer: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let run = answer["run_id"].as_str().unwrap().to_owned();
    let job = worker.claim("w", "work", 1).await.remove(0);
    worker.complete(&job, &json!({})).await.expect(200);
    worker.ended(&run).await;
    (run, job["traceparent"].as_str().map(str::to_owned))
}

/// Asserts that the spans are in one trace, each under its cause.
fn assert_one_trace(spans: &BTreeMap<String, Span>, trace: &str, parent: &str) {
    let hexadecimal =
        |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let traces: BTreeSet<String> = spans.values().map(|span| hexadecimal(&span.trace)).collect();
    assert_eq!(traces, BTreeSet::from([trace.to_owned()]));
    assert_eq!(hexadecimal(&spans["start"].parent), parent);
    assert_eq!(spans["admission"].parent, spans["start"].id);
    assert_eq!(spans["dispatch"].parent, spans["admission"].id);
    assert_eq!(spans["claim"].parent, spans["dispatch"].id);
    assert_eq!(spans["result"].parent, spans["dispatch"].id);
    assert!(spans.values().all(|span| span.began <= span.ended && span.began > 0));
}

#[tokio::test]
async fn a_run_is_one_trace_from_its_start_to_its_result() {
    let collector = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--otlp-endpoint", &collector.url]);
    let caller = server.caller("acme");
    let (run, traceparent) = one_run(&caller, &caller, None).await;
    let spans = collector.with(&NAMES).await;
    let trace = run.replace('-', "");
    assert_one_trace(&spans, &trace, "");
    // A worker's own spans belong under the dispatch.
    let dispatch = spans["dispatch"].id.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!(traceparent, Some(format!("00-{trace}-{dispatch}-01")));
}

#[tokio::test]
async fn a_run_that_is_started_under_a_span_stays_under_it_on_every_replica() {
    let collector = Collector::start().await;
    let machines = Machines::start_with(2, &["--otlp-endpoint", &collector.url]).await;
    let callers = machines.callers("acme");
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let within = format!("00-{trace}-{parent}-01");
    let (_, traceparent) = one_run(&callers[0], &callers[1], Some(&within)).await;
    assert_one_trace(&collector.with(&NAMES).await, trace, parent);
    assert!(traceparent.is_some_and(|traceparent| traceparent.contains(trace)));
}

// The collector needs a thread while this one waits for the server to end.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsampled_parent_and_a_ratio_of_zero_export_no_spans() {
    let collector = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--otlp-sample-ratio", "0", "--data"])
        .arg(folder.path());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let server = Server::of(command);
    let caller = server.caller("acme");
    let within = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
    for quiet in [None, Some(format!("{within}-00"))] {
        let (_, traceparent) = one_run(&caller, &caller, quiet.as_deref()).await;
        assert_eq!(traceparent, None);
    }
    one_run(&caller, &caller, Some(&format!("{within}-01"))).await;
    // The server exports the remaining spans before it exits.
    assert_eq!(server.stop(), Some(0));
    let names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names.len(), NAMES.len(), "{names:?}");
}

#[tokio::test]
async fn by_default_nothing_is_traced() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let within = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(one_run(&caller, &caller, Some(within)).await.1, None);
}

#[tokio::test]
async fn an_unreachable_collector_stops_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--otlp-endpoint", "http://127.0.0.1:9"]);
    let caller = server.caller("acme");
    one_run(&caller, &caller, None).await;
    assert_eq!(server.stop(), Some(0));
}
