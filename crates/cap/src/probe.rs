//! What can be seen of the stream that results come from.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, connection::State};
use async_trait::async_trait;
use interlock_backend::probe::{Probe, Probed};
use interlock_model::doctor::{Finding, Invariant, Mending};

use crate::settings::CapSettings;
use crate::streams::{self, RESULTS_CONSUMER, SYSTEM_STREAM};

/// How long NATS has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Results that may wait on the stream: what replicas take within a few seconds.
const LAG_MAX: u64 = 5_000;

/// Looks at the stream of results and at its consumer. Needs no edge in the same process.
pub struct StreamProbe {
    client: Client,
    context: jetstream::Context,
    settings: CapSettings,
}

impl StreamProbe {
    #[must_use]
    pub fn new(client: Client, settings: CapSettings) -> Self {
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER_MAX);
        Self { client, context, settings }
    }

    fn consumer_name(&self) -> String {
        self.settings.shared_name(RESULTS_CONSUMER)
    }

    /// How many results wait; none if there is no consumer that would take them.
    async fn waiting(&self) -> Result<Option<u64>, String> {
        if self.client.connection_state() != State::Connected {
            return Err("there is no connection to NATS".to_owned());
        }
        let found: Result<PullConsumer, ConsumerError> =
            self.context.get_consumer_from_stream(self.consumer_name(), SYSTEM_STREAM).await;
        match found {
            Ok(consumer) => Ok(Some(consumer.cached_info().num_pending)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(format!("NATS did not tell of the consumer: {error}")),
        }
    }

    fn finding(&self, invariant: Invariant, detail: String, is_repairable: bool) -> Probed {
        let subject = self.consumer_name();
        Probed::found(invariant, vec![Finding { invariant, tenant: None, subject, detail, is_repairable }])
    }
}

#[async_trait]
impl Probe for StreamProbe {
    async fn probe(&self) -> Vec<Probed> {
        let (gone, lag) = (Invariant::ConsumerGone, Invariant::StreamLag);
        match self.waiting().await {
            Err(why) => vec![Probed::unseen(gone, why.clone()), Probed::unseen(lag, why)],
            Ok(None) => vec![
                self.finding(
                    gone,
                    format!("nobody would take results from the stream {SYSTEM_STREAM}"),
                    true,
                ),
                Probed::unseen(lag, "the consumer that would count what waits is gone"),
            ],
            Ok(Some(waiting)) if waiting > LAG_MAX => vec![
                Probed::found(gone, Vec::new()),
                self.finding(lag, format!("{waiting} results wait on the stream {SYSTEM_STREAM}"), false),
            ],
            Ok(Some(_)) => vec![Probed::found(gone, Vec::new()), Probed::found(lag, Vec::new())],
        }
    }

    async fn mend(&self, invariant: Invariant, subject: &str) -> Option<Mending> {
        match invariant {
            Invariant::StreamLag => Some(Mending::Impossible { reason: invariant.plan().to_owned() }),
            Invariant::ConsumerGone if subject != self.consumer_name() => Some(Mending::NothingToDo),
            Invariant::ConsumerGone => Some(match self.waiting().await {
                Err(reason) => Mending::Impossible { reason },
                Ok(Some(_)) => Mending::NothingToDo,
                Ok(None) => match streams::prepare(&self.context, &self.settings).await {
                    Ok(_) => Mending::Mended,
                    Err(error) => Mending::Impossible { reason: error.to_string() },
                },
            }),
            _ => None,
        }
    }
}

fn is_gone(error: &ConsumerError) -> bool {
    match error.kind() {
        ConsumerErrorKind::JetStream(refusal) => {
            let gone = [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND];
            gone.contains(&refusal.error_code())
        }
        _ => false,
    }
}
