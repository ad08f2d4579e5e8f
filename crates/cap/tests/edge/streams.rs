//! Streams and the consumer are as configured, or the error says why not.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use interlock_backend::clock::SystemClock;
use interlock_backend::inspection::{Probe as _, Probed};
use interlock_backend::{InProcessBus, Store, memory};
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_backend_redis::mailbox::RedisMailbox;
use interlock_cap::streams::{JOBS_STREAM, RESULTS_CONSUMER, SYSTEM_STREAM};
use interlock_cap::{CapSettings, Edge, Parts, PrepareError, StreamProbe};
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::doctor::{Invariant, RepairOutcome};
use interlock_servers::{Nats, NatsOptions, NatsRelease, Redis};

crate::on_both_releases!(
    streams_are_created_as_configured,
    streams_and_a_consumer_that_differ_are_changed,
    a_stream_with_other_subjects_is_refused_and_left_alone,
    an_overlapping_stream_is_refused,
    a_change_that_nats_refuses_is_reported,
    a_server_without_jetstream_is_refused_with_advice,
    a_missing_consumer_is_found_and_repaired,
);

struct StreamFixture {
    nats: Nats,
    mailbox: Arc<RedisMailbox>,
}

impl StreamFixture {
    async fn start(release: NatsRelease, jet_stream: bool) -> Self {
        let nats = Nats::start(NatsOptions { release, jet_stream, ..NatsOptions::default() }).await.unwrap();
        let redis = Redis::shared().await.unwrap();
        let connection = Connection::open(ConnectSettings::new(redis.url().parse().unwrap())).await.unwrap();
        let mailbox = Arc::new(RedisMailbox::new(connection.clone(), connection));
        Self { nats, mailbox }
    }

    async fn context(&self) -> Context {
        jetstream::new(async_nats::connect(self.nats.url()).await.unwrap())
    }

    async fn prepare(&self, settings: CapSettings) -> Result<Edge, PrepareError> {
        let (clock, bus) = (Arc::new(SystemClock), Arc::new(InProcessBus::default()));
        let foundation = Foundation {
            store: Store::new(Arc::new(memory::store(clock.clone()))),
            bus: bus.clone(),
            clock,
            identity: Identity::from_seed(1),
            instance: "i-test".parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, Settings::default());
        let client = async_nats::connect(self.nats.url()).await.unwrap();
        Edge::prepare(client, Parts { control, bus, mailbox: self.mailbox.clone() }, settings).await
    }

    async fn refusal(&self) -> String {
        let refused = self.prepare(CapSettings::default()).await;
        refused.err().expect("it cannot be prepared").to_string()
    }
}

async fn streams_are_created_as_configured(release: NatsRelease) {
    let fixture = StreamFixture::start(release, true).await;
    drop(fixture.prepare(CapSettings::default()).await.unwrap());
    // Again, when everything exists.
    drop(fixture.prepare(CapSettings::default()).await.unwrap());
    let context = fixture.context().await;
    for (name, subjects) in [(SYSTEM_STREAM, &["sys.job.*"][..]), (JOBS_STREAM, &["job.>", "worker.*.jobs"])]
    {
        let stream = context.get_stream(name).await.unwrap();
        let config = &stream.cached_info().config;
        assert_eq!(config.subjects, subjects);
        assert_eq!((config.storage, config.retention), (StorageType::File, RetentionPolicy::Limits));
        assert_eq!((config.discard, config.max_age.as_secs()), (DiscardPolicy::Old, 7 * 24 * 3_600));
        assert_eq!((config.max_bytes, config.num_replicas), (1 << 30, 1));
        assert_eq!(config.duplicate_window, Duration::from_mins(2));
    }
    let consumer: PullConsumer =
        context.get_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    let config = &consumer.cached_info().config;
    assert_eq!((config.filter_subject.as_str(), config.ack_policy), ("sys.job.result", AckPolicy::Explicit));
    assert_eq!((config.max_deliver, config.ack_wait), (100, Duration::from_secs(30)));
    assert_eq!(config.max_ack_pending, 1_024);
}

async fn streams_and_a_consumer_that_differ_are_changed(release: NatsRelease) {
    let fixture = StreamFixture::start(release, true).await;
    let context = fixture.context().await;
    let planted = Config {
        name: SYSTEM_STREAM.to_owned(),
        subjects: vec!["sys.job.*".to_owned()],
        ..Config::default()
    };
    let stream = context.create_stream(planted).await.unwrap();
    let planted = pull::Config {
        durable_name: Some(RESULTS_CONSUMER.to_owned()),
        filter_subject: "sys.job.result".to_owned(),
        ack_policy: AckPolicy::Explicit,
        max_deliver: 7,
        ..pull::Config::default()
    };
    stream.create_consumer(planted).await.unwrap();
    drop(fixture.prepare(CapSettings::default()).await.unwrap());
    let consumer: PullConsumer =
        context.get_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    assert_eq!(consumer.cached_info().config.max_deliver, 100);
    let stream = context.get_stream(SYSTEM_STREAM).await.unwrap();
    assert_eq!(stream.cached_info().config.max_bytes, 1 << 30);
}

async fn a_stream_with_other_subjects_is_refused_and_left_alone(release: NatsRelease) {
    let fixture = StreamFixture::start(release, true).await;
    let planted =
        Config { name: SYSTEM_STREAM.to_owned(), subjects: vec!["sys.>".to_owned()], ..Config::default() };
    fixture.context().await.create_stream(planted).await.unwrap();
    let refusal = fixture.refusal().await;
    assert!(refusal.contains("the stream CORDUM_SYS already stores sys.>, as Cordum's does"), "{refusal}");
    assert!(refusal.contains("nats stream rm CORDUM_SYS"), "{refusal}");
    let stream = fixture.context().await.get_stream(SYSTEM_STREAM).await.unwrap();
    assert_eq!(stream.cached_info().config.subjects, ["sys.>"], "the stream was changed");
}

async fn an_overlapping_stream_is_refused(release: NatsRelease) {
    let fixture = StreamFixture::start(release, true).await;
    let planted =
        Config { name: "OTHER".to_owned(), subjects: vec!["sys.>".to_owned()], ..Config::default() };
    fixture.context().await.create_stream(planted).await.unwrap();
    let refusal = fixture.refusal().await;
    assert!(refusal.contains("another stream stores subjects of CORDUM_SYS already"), "{refusal}");
}

async fn a_change_that_nats_refuses_is_reported(release: NatsRelease) {
    let fixture = StreamFixture::start(release, true).await;
    let planted = Config {
        name: JOBS_STREAM.to_owned(),
        subjects: vec!["job.>".to_owned()],
        storage: StorageType::Memory,
        ..Config::default()
    };
    fixture.context().await.create_stream(planted).await.unwrap();
    let refusal = fixture.refusal().await;
    assert!(refusal.starts_with("NATS refused the stream CORDUM_JOBS:"), "{refusal}");
}

async fn a_server_without_jetstream_is_refused_with_advice(release: NatsRelease) {
    let fixture = StreamFixture::start(release, false).await;
    let refusal = fixture.refusal().await;
    assert!(refusal.contains("start nats-server with -js"), "{refusal}");
}

async fn a_missing_consumer_is_found_and_repaired(release: NatsRelease) {
    let mut fixture = StreamFixture::start(release, true).await;
    let client = async_nats::connect(fixture.nats.url()).await.unwrap();
    let probe = StreamProbe::new(client, CapSettings::default());
    let (gone, lag) = (Invariant::ConsumerGone, Invariant::StreamLag);
    // First the stream is missing, then its consumer.
    for _ in 0..2 {
        let probed = probe.probe().await;
        let [Probed::Found(finding), Probed::Unseen { invariant, .. }] = probed.as_slice() else {
            panic!("unexpected: {probed:?}")
        };
        assert_eq!((finding.invariant, finding.subject.as_str()), (gone, RESULTS_CONSUMER));
        assert!(finding.is_repairable && *invariant == lag, "{finding:?}");
        assert_eq!(probe.repair(gone, "another").await, Ok(RepairOutcome::NothingToDo));
        assert_eq!(probe.repair(gone, RESULTS_CONSUMER).await, Ok(RepairOutcome::Repaired));
        assert_eq!(probe.probe().await, [Probed::Sound(gone), Probed::Sound(lag)]);
        assert_eq!(probe.repair(gone, RESULTS_CONSUMER).await, Ok(RepairOutcome::NothingToDo));
        let context = fixture.context().await;
        context.delete_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    }
    assert_eq!(probe.repair(gone, RESULTS_CONSUMER).await, Ok(RepairOutcome::Repaired));
    publish_results(&fixture.context().await, 5_001).await;
    let probed = probe.probe().await;
    let [Probed::Sound(_), Probed::Found(finding)] = probed.as_slice() else { panic!("{probed:?}") };
    assert_eq!((finding.invariant, finding.is_repairable), (lag, false));
    assert!(finding.detail.starts_with("5001 results"), "{finding:?}");
    fixture.nats.kill().await.unwrap();
    let probed = probe.probe().await;
    assert!(matches!(probed[..], [Probed::Unseen { .. }, Probed::Unseen { .. }]), "{probed:?}");
}

/// Publishes results that no consumer reads.
async fn publish_results(context: &Context, results: usize) {
    let mut last = None;
    for _ in 0..results {
        last = Some(context.publish("sys.job.result", "x".into()).await.unwrap());
    }
    last.expect("at least one was published").await.unwrap();
}
