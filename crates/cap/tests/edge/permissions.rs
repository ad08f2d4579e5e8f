//! `deploy/nats/nats.conf`: what a worker may send and receive.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::StreamExt as _;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Pools;
use interlock_servers::{NatsOptions, NatsRelease};
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{Fixture, acme, connect, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(a_worker_gets_its_own_jobs_and_nothing_else);

fn options(release: NatsRelease) -> NatsOptions {
    let config = include_str!("../../../../deploy/nats/nats.conf");
    let config = config.replace("$SERVER_PASSWORD", "own").replace("$WORKER_1_PASSWORD", "its");
    let user = Some(("interlock".to_owned(), "own".to_owned()));
    NatsOptions { release, user, config: Some(config), ..NatsOptions::default() }
}

async fn a_worker_gets_its_own_jobs_and_nothing_else(release: NatsRelease) {
    let fixture = Fixture::open_on(options(release), fast(), Pools::default()).await;
    let url = fixture.nats.url().replace("interlock:own", "worker-1:its");
    let mut worker = Worker::join_at(&url, "worker-1", WorkerOptions::default()).await;
    let client = connect(&url).await;
    let mut spy = client.subscribe("worker.>").await.unwrap();
    let stream = jetstream::new(client.clone());
    let deleting = timeout(Duration::from_secs(1), stream.delete_stream("CORDUM_SYS")).await;
    assert!(!matches!(deleting, Ok(Ok(_))), "a worker deleted a stream");

    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    // An order of its own to start work elsewhere would be one for another worker.
    client.publish("worker.other.jobs", "{}".into()).await.unwrap();
    client.flush().await.unwrap();
    let overheard = timeout(Duration::from_millis(1), spy.next()).await;
    assert!(!matches!(overheard, Ok(Some(_))), "a worker heard of a job that was not for it");

    worker.succeed(&fixture, &job, &json!("done")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!("done")));
}
