//! Shutdown: stop accepting, finish requests in progress.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, Answer as StoreAnswer, ReadJob, Request};
use interlock_backend::{Backend, StoreError};
use interlock_control::settings;
use interlock_gateway::Settings;
use interlock_model::admission::StartOutcome;
use interlock_model::contention::RunStrategy;
use interlock_poll::{LIMIT, until};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::client::Answer;
use crate::server::{Server, empty_store, local, one_step, patient};
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

/// A store that results enter only after the test lets them.
struct GatedStore {
    backend: Arc<dyn Backend>,
    arrived: Semaphore,
    admitted: Semaphore,
}

#[async_trait]
impl Backend for GatedStore {
    async fn ask(&self, request: Request) -> Result<StoreAnswer, StoreError> {
        if matches!(request, Request::RecordResult(_) | Request::DeliverResult(_)) {
            self.arrived.add_permits(1);
            self.admitted.acquire().await.unwrap().forget();
        }
        self.backend.ask(request).await
    }

    fn refusal(&self, start: &Admit) -> Option<StartOutcome> {
        self.backend.refusal(start)
    }

    fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }
}

async fn a_result_whose_worker_hung_up_is_waited_for(run_strategy: RunStrategy) {
    let (arrived, admitted) = (Semaphore::new(0), Semaphore::new(0));
    let gated = Arc::new(GatedStore { backend: empty_store(), arrived, admitted });
    let mut server = Server::on(gated.clone(), settings::Settings { run_strategy, ..patient() }).await;
    server.save(&one_step("wf")).await;
    server.run("wf", &json!({"n": 1})).await;
    let claim = json!({"topics": ["build"], "max_jobs": 1, "wait_ms": 10_000, "lease_ms": 3_600_000});
    let claimed = server.post("/api/v1/workers/w/claim").json(&claim).send().await.ok(200);
    let (job, fence) = (claimed["jobs"][0]["job_id"].as_str().unwrap(), &claimed["jobs"][0]["fence"]);

    let mut worker = TcpStream::connect(server.address).await.unwrap();
    let body = json!({"fence": fence, "output": {"n": 2}}).to_string();
    let request = format!(
        "POST /api/v1/jobs/{job}/complete HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    worker.write_all(request.as_bytes()).await.unwrap();
    tokio::time::timeout(LIMIT, gated.arrived.acquire()).await.expect("the result arrives").unwrap().forget();
    drop(worker);
    // While the clock stands still, time passes only when there is nothing else to do: by the end of this second the
    // gateway has seen that the worker hung up, and has done all that its shutdown does without the result.
    tokio::time::pause();
    server.shutdown.cancel();
    let has_closed_early = tokio::time::timeout(Duration::from_secs(1), &mut server.serving).await.is_ok();
    tokio::time::resume();
    assert!(!has_closed_early, "{run_strategy:?}: the gateway closed before the result was in the store");
    gated.admitted.add_permits(1);
    has_closed(&mut server).await;
    let (tenant, job) = ("default".parse().unwrap(), job.parse().unwrap());
    let found = server.store.call(ReadJob { tenant, job }).await.unwrap().unwrap();
    assert!(found.job.end.is_some(), "{run_strategy:?}: {found:?}");
}

#[tokio::test]
async fn a_result_for_the_inbox_whose_worker_hung_up_is_in_the_store_when_the_gateway_has_closed() {
    a_result_whose_worker_hung_up_is_waited_for(RunStrategy::Inbox).await;
}

#[tokio::test]
async fn a_result_under_the_lock_of_its_run_whose_worker_hung_up_is_in_the_store_when_the_gateway_has_closed()
{
    a_result_whose_worker_hung_up_is_waited_for(RunStrategy::Lock).await;
}
