//! Checks the stream of results and its consumer.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, connection::State};
use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::inspection::{Probe, Probed};
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};

use crate::settings::CapSettings;
use crate::streams::{self, RESULTS_CONSUMER, SYSTEM_STREAM};

/// How long NATS has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Results that may wait on the stream: what replicas handle within a few seconds.
const LAG_MAX: u64 = 5_000;

/// Needs no [`Edge`](crate::Edge) in the same process.
pub struct StreamProbe {
    client: Client,
    context: jetstream::Context,
    settings: CapSettings,
}

impl StreamProbe {
    pub fn new(client: Client, settings: CapSettings) -> Self {
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER_MAX);
        Self { client, context, settings }
    }

    fn consumer_name(&self) -> String {
        self.settings.shared_name(RESULTS_CONSUMER)
    }

    /// How many results wait; none if the consumer is missing.
    async fn waiting(&self) -> Result<Option<u64>, String> {
        if self.client.connection_state() != State::Connected {
            return Err("there is no connection to NATS".to_owned());
        }
        let found: Result<PullConsumer, ConsumerError> =
            self.context.get_consumer_from_stream(self.consumer_name(), SYSTEM_STREAM).await;
        match found {
            Ok(consumer) => Ok(Some(consumer.cached_info().num_pending)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(format!("NATS did not describe the consumer: {error}")),
        }
    }

    fn found(&self, invariant: Invariant, detail: String, is_repairable: bool) -> Probed {
        let subject = self.consumer_name();
        Probed::Found(Finding { invariant, tenant: None, subject, detail, is_repairable })
    }

    async fn create_consumer(&self) -> RepairOutcome {
        match self.waiting().await {
            Err(reason) => RepairOutcome::Impossible { reason },
            Ok(Some(_)) => RepairOutcome::NothingToDo,
            Ok(None) => match streams::prepare(&self.context, &self.settings).await {
                Ok(_) => RepairOutcome::Repaired,
                Err(error) => RepairOutcome::Impossible { reason: error.to_string() },
            },
        }
    }
}

#[async_trait]
impl Probe for StreamProbe {
    async fn probe(&self) -> Vec<Probed> {
        let (missing, lag) = (Invariant::ConsumerGone, Invariant::StreamLag);
        match self.waiting().await {
            Err(reason) => {
                [missing, lag].map(|invariant| Probed::Unseen { invariant, reason: reason.clone() }).into()
            }
            Ok(None) => {
                let reason = "the consumer that counts waiting results is missing".to_owned();
                let detail = format!("no consumer reads results from the stream {SYSTEM_STREAM}");
                vec![self.found(missing, detail, true), Probed::Unseen { invariant: lag, reason }]
            }
            Ok(Some(waiting)) if waiting > LAG_MAX => {
                let detail = format!("{waiting} results wait on the stream {SYSTEM_STREAM}");
                vec![Probed::Sound(missing), self.found(lag, detail, false)]
            }
            Ok(Some(_)) => vec![Probed::Sound(missing), Probed::Sound(lag)],
        }
    }

    async fn repair(&self, invariant: Invariant, subject: &str) -> Result<RepairOutcome, StoreError> {
        if invariant == Invariant::ConsumerGone && subject == self.consumer_name() {
            return Ok(self.create_consumer().await);
        }
        Ok(RepairOutcome::NothingToDo)
    }
}

fn is_missing(error: &ConsumerError) -> bool {
    let missing = [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND];
    matches!(error.kind(), ConsumerErrorKind::JetStream(refusal) if missing.contains(&refusal.error_code()))
}
