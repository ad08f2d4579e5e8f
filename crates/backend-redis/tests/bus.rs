//! Wake-ups between processes, on a real NATS.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use interlock_backend::{Bus as _, Wake};
use interlock_backend_redis::bus::NatsBus;
use interlock_backend_redis::nats::{self, NatsError, NatsSettings};
use interlock_servers::{Certificate, Nats, NatsOptions, NatsRelease};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

async fn bus(server: &Nats, name: &str, has_engine: bool) -> NatsBus {
    let client = nats::connect(&NatsSettings::new(server.url())).await.unwrap();
    NatsBus::start(client, "test", name.parse().unwrap(), has_engine).await.unwrap()
}

async fn server(release: NatsRelease) -> Nats {
    Nats::start(NatsOptions { release, ..NatsOptions::default() }).await.unwrap()
}

fn ready() -> Wake {
    Wake::RunReady { tenant: "acme".parse().unwrap() }
}

fn jobs(topic: &str) -> Wake {
    Wake::JobsReady { tenant: "acme".parse().unwrap(), topic: topic.parse().unwrap(), jobs: 1 }
}

async fn heard(receiver: &mut Receiver<Wake>) -> Wake {
    timeout(LIMIT, receiver.recv()).await.expect("a wake-up arrives").unwrap()
}

/// Says `mark` from `speaker` until it is heard: a subscription takes a moment to reach the server.
async fn acquaint(speaker: &NatsBus, listener: &mut Receiver<Wake>, mark: Wake) {
    let hear = async {
        loop {
            speaker.wake(mark.clone());
            if let Ok(Ok(_)) = timeout(Duration::from_millis(50), listener.recv()).await {
                return;
            }
        }
    };
    timeout(LIMIT, hear).await.expect("the two hear each other");
    while listener.try_recv().is_ok() {}
}

async fn each_hears_the_other_and_itself_once(release: NatsRelease) {
    let server = server(release).await;
    let (one, other) = (bus(&server, "i-1", true).await, bus(&server, "i-2", true).await);
    let (mut at_one, mut at_other) = (one.subscribe(), other.subscribe());
    acquaint(&one, &mut at_other, Wake::KeysChanged).await;
    acquaint(&other, &mut at_one, Wake::KeysChanged).await;
    while timeout(Duration::from_millis(50), at_one.recv()).await.is_ok() {}
    while timeout(Duration::from_millis(50), at_other.recv()).await.is_ok() {}
    one.wake(jobs("first"));
    one.wake(jobs("second"));
    for receiver in [&mut at_one, &mut at_other] {
        assert_eq!((heard(receiver).await, heard(receiver).await), (jobs("first"), jobs("second")));
    }
    other.wake(Wake::LimitsChanged);
    assert_eq!(heard(&mut at_one).await, Wake::LimitsChanged, "the first was not doubled");
    assert_eq!(heard(&mut at_other).await, Wake::LimitsChanged);
}

#[tokio::test]
async fn whose_turn_it_is_is_heard_at_once_where_it_was_said_and_soon_elsewhere() {
    let server = server(NatsRelease::Debian).await;
    let (one, other) = (bus(&server, "i-1", true).await, bus(&server, "i-2", false).await);
    let (mut at_one, mut at_other) = (one.subscribe(), other.subscribe());
    acquaint(&one, &mut at_other, Wake::KeysChanged).await;
    while at_one.try_recv().is_ok() {}
    let turn = Wake::LockTurn {
        lock: interlock_model::lock::LockName::Of("acme".parse().unwrap(), "a/b".parse().unwrap()),
        request: "request/1".parse().unwrap(),
    };
    one.wake(turn.clone());
    assert_eq!(at_one.try_recv(), Ok(turn.clone()), "no way over NATS");
    while heard(&mut at_other).await != turn {}
}

#[tokio::test]
async fn two_processes_hear_each_other_on_nats_of_debian() {
    each_hears_the_other_and_itself_once(NatsRelease::Debian).await;
}

#[tokio::test]
async fn two_processes_hear_each_other_on_the_newest_nats() {
    each_hears_the_other_and_itself_once(NatsRelease::Newest).await;
}

#[tokio::test]
async fn a_ready_run_of_a_process_without_an_engine_reaches_one_engine() {
    let server = server(NatsRelease::Debian).await;
    let gateway = bus(&server, "i-1", false).await;
    let (one, other) = (bus(&server, "i-2", true).await, bus(&server, "i-3", true).await);
    let (mut at_one, mut at_other) = (one.subscribe(), other.subscribe());
    acquaint(&gateway, &mut at_one, Wake::KeysChanged).await;
    acquaint(&gateway, &mut at_other, Wake::KeysChanged).await;
    gateway.wake(ready());
    gateway.wake(Wake::LimitsChanged);
    let (mut seen, mut ends) = (0, 0);
    while ends < 2 {
        let wake = tokio::select! {
            wake = heard(&mut at_one) => wake,
            wake = heard(&mut at_other) => wake,
        };
        seen += usize::from(wake == ready());
        ends += usize::from(wake == Wake::LimitsChanged);
    }
    // The two subjects are not in one order: the ready run may come after the mark.
    while seen == 0 {
        let wake = tokio::select! {
            wake = heard(&mut at_one) => wake,
            wake = heard(&mut at_other) => wake,
        };
        seen += usize::from(wake == ready());
    }
    assert_eq!(seen, 1, "one engine of all is enough");
    one.wake(ready());
    assert_eq!(heard(&mut at_one).await, ready(), "an engine's own ready run is its own");
}

#[tokio::test]
async fn a_bus_says_when_it_is_away_and_speaks_again_when_it_is_back() {
    let mut server = server(NatsRelease::Debian).await;
    let (one, other) = (bus(&server, "i-1", true).await, bus(&server, "i-2", true).await);
    let mut at_other = other.subscribe();
    assert!(one.is_connected());
    server.kill().await.unwrap();
    let gone = async {
        while one.is_connected() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, gone).await.expect("it is noticed");
    let mut at_one = one.subscribe();
    one.wake(Wake::KeysChanged);
    assert_eq!(heard(&mut at_one).await, Wake::KeysChanged, "within the process nothing changes");
    server.start_again().await.unwrap();
    acquaint(&one, &mut at_other, jobs("again")).await;
}

#[tokio::test]
async fn tls_with_the_right_certificate_is_spoken_and_without_it_refused() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::make(folder.path()).unwrap();
    let options = NatsOptions { certificate: Some(certificate.clone()), ..NatsOptions::default() };
    let server = Nats::start(options).await.unwrap();
    let url = format!("tls://localhost:{}", server.port());
    let trusting = NatsSettings { ca_file: Some(certificate.certificate), ..NatsSettings::new(&url) };
    let client = nats::connect(&trusting).await.unwrap();
    client.flush().await.unwrap();
    let refused = nats::connect(&NatsSettings::new(&url)).await.unwrap_err();
    assert!(matches!(refused, NatsError::Tls { .. } | NatsError::NotThere { .. }), "{refused}");
}

#[tokio::test]
async fn the_error_for_a_wrong_password_does_not_show_it() {
    let user = Some(("ada".to_owned(), "right".to_owned()));
    let server = Nats::start(NatsOptions { user, ..NatsOptions::default() }).await.unwrap();
    nats::connect(&NatsSettings::new(server.url())).await.unwrap();
    let wrong = NatsSettings::new(server.url().replace("right", "wrong"));
    let refused = nats::connect(&wrong).await.unwrap_err();
    assert!(matches!(refused, NatsError::NotAllowed { .. }));
    assert!(!refused.to_string().contains("wrong"));
}
