//! Serves NATS workers: prepared once, then run until shutdown.

use std::fmt::Display;
use std::sync::Arc;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::{Client, Subscriber, jetstream};
use futures_util::future::BoxFuture;
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Bus, StoreReader};
use interlock_control::Control;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::confirmations::Confirmations;
use crate::connectivity::Connectivity;
use crate::counts::NatsCounts;
use crate::dispatch_queue::DispatchQueue;
use crate::pushed_jobs::PushedJobs;
use crate::settings::CapSettings;
use crate::streams::{self, PrepareError};
use crate::{confirming, dispatch, packets, results, silence, wire};

/// One replica of a queue group receives each message.
const QUEUE_GROUP: &str = "interlock";

/// What NATS workers need of the server.
pub struct Parts {
    pub control: Arc<Control>,
    pub bus: Arc<dyn Bus>,
    pub mailbox: Arc<dyn Mailbox>,
}

/// What all tasks for NATS workers share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) control: Arc<Control>,
    /// For reading. Only stages write.
    pub(crate) store: StoreReader,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) mailbox: Arc<dyn Mailbox>,
    pub(crate) settings: CapSettings,
    pub(crate) pushed: PushedJobs,
    pub(crate) confirmations: Confirmations,
    pub(crate) queue: DispatchQueue,
    pub(crate) connectivity: Connectivity,
    pub(crate) counts: Arc<NatsCounts>,
}

/// Ready to serve NATS workers.
pub struct Edge {
    shared: Arc<Shared>,
    consumer: PullConsumer,
    /// Subscriptions to handshakes, heartbeats and progress.
    packets: Vec<Subscriber>,
    /// Every replica sees every result, to learn which worker has room; one of them gets it from the stream.
    results: Subscriber,
    /// And every push, handshake and heartbeat, to learn which pushes were lost.
    watched: Vec<Subscriber>,
}

impl Edge {
    /// Creates the streams and subscribes. An error says what the operator can do.
    pub fn prepare(
        client: Client,
        parts: Parts,
        settings: CapSettings,
    ) -> BoxFuture<'static, Result<Self, PrepareError>> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(async move {
            let group = settings.shared_name(QUEUE_GROUP);
            let mut packets = Vec::new();
            for subject in [wire::HANDSHAKE, wire::HEARTBEAT, wire::PROGRESS] {
                let subscribed = client.queue_subscribe(subject, group.clone()).await;
                packets.push(subscribed.map_err(|error| PrepareError::no_answer(subject, &error))?);
            }
            let results = client.subscribe(wire::RESULT).await;
            let results = results.map_err(|error| PrepareError::no_answer(wire::RESULT, &error))?;
            let mut watched = Vec::new();
            for subject in [wire::HANDSHAKE, wire::HEARTBEAT, wire::PUSHES] {
                let subscribed = client.subscribe(subject).await;
                watched.push(subscribed.map_err(|error| PrepareError::no_answer(subject, &error))?);
            }
            // After the subscriptions: NATS answers in order, so with its answers here it has them.
            let jetstream = jetstream::new(client.clone());
            let consumer = streams::prepare(&jetstream, &settings).await?;
            let Parts { control, bus, mailbox } = parts;
            let shared = Arc::new(Shared {
                connectivity: Connectivity::new(client.clone()),
                client,
                jetstream,
                store: control.process.reader(),
                control,
                bus,
                mailbox,
                settings,
                pushed: PushedJobs::default(),
                confirmations: Confirmations::default(),
                queue: DispatchQueue::default(),
                counts: Arc::default(),
            });
            Ok(Self { shared, consumer, packets, results, watched })
        })
    }

    pub fn counts(&self) -> Arc<NatsCounts> {
        self.shared.counts.clone()
    }

    /// Serves until `shutdown`, whatever happens to NATS meanwhile.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(async move {
            let Self { shared, consumer, packets, results, watched } = self;
            let mut tasks = JoinSet::new();
            for subscriber in packets {
                tasks.spawn(packets::run(shared.clone(), subscriber, shutdown.clone()));
            }
            for subscriber in watched {
                tasks.spawn(confirming::watch(shared.clone(), subscriber, shutdown.clone()));
            }
            tasks.spawn(confirming::run(shared.clone(), shutdown.clone()));
            tasks.spawn(results::watch(shared.clone(), results, shutdown.clone()));
            tasks.spawn(results::run(shared.clone(), consumer, shutdown.clone()));
            tasks.spawn(dispatch::listen(shared.clone(), shutdown.clone()));
            tasks.spawn(dispatch::run(shared.clone(), shutdown.clone()));
            tasks.spawn(silence::run(shared, shutdown));
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a task for NATS workers panicked");
                }
            }
        })
    }
}

impl Shared {
    /// Counts a packet that has no effect, and logs some of them.
    pub(crate) fn drop_packet(&self, subject: &str, reason: &dyn Display) {
        self.counts.packets_dropped.up();
        tracing::warn!(subject, %reason, "a packet was dropped");
    }
}
