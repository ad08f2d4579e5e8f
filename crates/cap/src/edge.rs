//! The edge as a whole: prepared once, then run until it is told to stop.

use std::sync::Arc;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::{Client, Subscriber, jetstream};
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Bus, StoreReader};
use interlock_control::Control;
use interlock_control::dead_letters::DeadLetters;
use interlock_control::process::Process;
use interlock_control::results::Results;
use interlock_control::workers::Workers;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hearing::Hearing;
use crate::line::Line;
use crate::pushed::Pushed;
use crate::quiet::Quiet;
use crate::settings::CapSettings;
use crate::streams::{self, PrepareError};
use crate::tally::Tally;
use crate::{dispatch, progress, registry, results, silence, wire};

/// Of all replicas, one hears each message.
const QUEUE_GROUP: &str = "interlock";

/// What the edge stands on.
pub struct Parts {
    pub control: Arc<Control>,
    pub bus: Arc<dyn Bus>,
    pub mailbox: Arc<dyn Mailbox>,
}

/// What all stages of the edge share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    /// For reading. Only stages write.
    pub(crate) store: StoreReader,
    pub(crate) process: Arc<Process>,
    pub(crate) results: Arc<Results>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) mailbox: Arc<dyn Mailbox>,
    pub(crate) settings: CapSettings,
    pub(crate) pushed: Pushed,
    pub(crate) line: Line,
    pub(crate) hearing: Hearing,
    pub(crate) tally: Arc<Tally>,
    pub(crate) quiet: Quiet,
}

/// Workers on NATS, ready to be served.
pub struct Edge {
    shared: Arc<Shared>,
    consumer: PullConsumer,
    ears: Ears,
}

/// What is heard without a stream.
struct Ears {
    handshakes: Subscriber,
    heartbeats: Subscriber,
    progress: Subscriber,
    /// Every replica hears every result, to know of the room it makes; one of them gets it from the stream.
    results: Subscriber,
}

impl Edge {
    /// Makes the streams and begins to listen. An error says in a sentence what the operator can do.
    pub async fn prepare(client: Client, parts: Parts, settings: CapSettings) -> Result<Self, PrepareError> {
        let group = settings.shared_name(QUEUE_GROUP);
        let ears = Ears {
            handshakes: hear(&client, wire::HANDSHAKE, Some(&group)).await?,
            heartbeats: hear(&client, wire::HEARTBEAT, Some(&group)).await?,
            progress: hear(&client, wire::PROGRESS, Some(&group)).await?,
            results: hear(&client, wire::RESULT, None).await?,
        };
        // After the ears: NATS answers in order, so with its answers here it listens for us.
        let jetstream = jetstream::new(client.clone());
        let consumer = streams::prepare(&jetstream, &settings).await?;
        let Parts { control, bus, mailbox } = parts;
        let shared = Arc::new(Shared {
            hearing: Hearing::new(client.clone()),
            client,
            jetstream,
            store: control.process.reader(),
            process: control.process.clone(),
            results: control.results.clone(),
            workers: control.workers.clone(),
            dead_letters: control.dead_letters.clone(),
            bus,
            mailbox,
            settings,
            pushed: Pushed::default(),
            line: Line::default(),
            tally: Arc::default(),
            quiet: Quiet::default(),
        });
        Ok(Self { shared, consumer, ears })
    }

    /// What the edge has done, for metrics.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        self.shared.tally.clone()
    }

    /// Serves until `shutdown`, whatever happens to NATS meanwhile.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { shared, consumer, ears } = self;
        let mut stages = JoinSet::new();
        stages.spawn(registry::introductions(shared.clone(), ears.handshakes, shutdown.clone()));
        stages.spawn(registry::beats(shared.clone(), ears.heartbeats, shutdown.clone()));
        stages.spawn(progress::run(shared.clone(), ears.progress, shutdown.clone()));
        stages.spawn(results::watch(shared.clone(), ears.results, shutdown.clone()));
        stages.spawn(results::run(shared.clone(), consumer, shutdown.clone()));
        stages.spawn(dispatch::listen(shared.clone(), shutdown.clone()));
        stages.spawn(dispatch::run(shared.clone(), shutdown.clone()));
        stages.spawn(silence::run(shared, shutdown));
        while let Some(ended) = stages.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "NATS edge stage panicked");
            }
        }
    }
}

impl Shared {
    /// Counts a packet that is passed over, and tells about one of many.
    pub(crate) fn passed_over(&self, subject: &str, reason: &dyn std::fmt::Display) {
        self.tally.packets_dropped.up();
        if let Some(kept_back) = self.quiet.may_warn() {
            tracing::warn!(subject, %reason, kept_back, "a packet from the bus was passed over");
        }
    }
}

async fn hear(
    client: &Client,
    subject: &'static str,
    group: Option<&str>,
) -> Result<Subscriber, PrepareError> {
    let heard = match group {
        Some(group) => client.queue_subscribe(subject, group.to_owned()).await,
        None => client.subscribe(subject).await,
    };
    heard.map_err(|error| no_answer(&format!("the subscription to {subject}"), &error))
}

fn no_answer(what: &str, error: &dyn std::error::Error) -> PrepareError {
    PrepareError::NoAnswer { what: what.to_owned(), reason: error.to_string() }
}
