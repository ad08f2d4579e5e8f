//! The streams and the consumer of NATS workers, created if missing and compared with what was requested.
//!
//! Old servers silently drop what they do not know, so everything is read back.

use std::fmt::Debug;
use std::time::Duration;

use async_nats::jetstream::consumer::{self, AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};

use crate::settings::CapSettings;
use crate::wire;

pub const SYSTEM_STREAM: &str = "CORDUM_SYS";
pub const JOBS_STREAM: &str = "CORDUM_JOBS";
pub const RESULTS_CONSUMER: &str = "interlock-results";

/// A message with an id that was published twice within this time is stored once.
const DUPLICATE_WINDOW: Duration = Duration::from_mins(2);

/// How large and how old a stream may become; the oldest messages make room.
const BYTES_MAX: i64 = 1 << 30;
const AGE_MAX: Duration = Duration::from_hours(7 * 24);

/// How long a result may be in progress without a sign of it before NATS delivers it to another replica.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);

/// Why NATS workers cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error(
        "the NATS server has no JetStream, or not for this account: start nats-server with -js, and with -sd <folder> \
         for the folder of its streams"
    )]
    NoJetStream,
    #[error(
        "the stream {stream} already stores {subjects}, as Cordum's does, and narrowing it would take messages from \
         its other consumers: give Interlock a NATS account of its own, or remove the stream (nats stream rm {stream})"
    )]
    Foreign { stream: String, subjects: String },
    #[error(
        "another stream stores subjects of {stream} already ({reason}): give Interlock a NATS account of its own, or \
         remove that stream"
    )]
    Overlap { stream: String, reason: String },
    #[error("NATS refused {what}: {reason}")]
    Refused { what: String, reason: String },
    #[error("NATS did not answer while {what} was prepared: {reason}")]
    NoAnswer { what: String, reason: String },
    #[error(
        "NATS has {what} with {field} {found}, though {requested} was requested; is its server older than 2.9, or does \
         something else change it?"
    )]
    Differs { what: String, field: &'static str, requested: String, found: String },
}

impl PrepareError {
    pub(crate) fn no_answer(what: &str, error: &dyn std::error::Error) -> Self {
        Self::NoAnswer { what: what.to_owned(), reason: error.to_string() }
    }
}

/// A field, what was requested, and what NATS has.
type Difference = (&'static str, String, String);

/// Creates what is missing, changes what is different, and reads back the result.
pub(crate) async fn prepare(context: &Context, settings: &CapSettings) -> Result<PullConsumer, PrepareError> {
    prepare_stream(context, stream_config(settings, SYSTEM_STREAM, &["sys.job.*"])).await?;
    prepare_stream(context, stream_config(settings, JOBS_STREAM, &["job.>", "worker.*.jobs"])).await?;
    prepare_consumer(context, &consumer_config(settings)).await
}

fn stream_config(settings: &CapSettings, name: &str, subjects: &[&str]) -> stream::Config {
    stream::Config {
        name: name.to_owned(),
        subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_age: AGE_MAX,
        max_bytes: BYTES_MAX,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_message_size: -1,
        max_consumers: -1,
        duplicate_window: DUPLICATE_WINDOW,
        num_replicas: settings.stream_replicas,
        ..stream::Config::default()
    }
}

fn consumer_config(settings: &CapSettings) -> pull::Config {
    pull::Config {
        durable_name: Some(settings.shared_name(RESULTS_CONSUMER)),
        filter_subject: wire::RESULT.to_owned(),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: settings.max_deliver,
        max_ack_pending: settings.max_ack_pending,
        ..pull::Config::default()
    }
}

async fn prepare_stream(context: &Context, requested: stream::Config) -> Result<(), PrepareError> {
    let name = requested.name.clone();
    match context.get_stream(&name).await {
        Ok(found) => {
            let found = &found.cached_info().config;
            refuse_foreign(&requested, found)?;
            if stream_difference(&requested, found).is_some() {
                context.update_stream(&requested).await.map_err(|error| explain(&name, &error))?;
            }
        }
        // Missing, or no answer: the next call shows which.
        Err(_) => {
            context.create_stream(&requested).await.map_err(|error| explain(&name, &error))?;
        }
    }
    let what = format!("the stream {name}");
    let found = context.get_stream(&name).await.map_err(|error| PrepareError::no_answer(&what, &error))?;
    agree(&what, stream_difference(&requested, &found.cached_info().config))
}

/// A stream of this name that stores more subjects than requested belongs to another application.
fn refuse_foreign(requested: &stream::Config, found: &stream::Config) -> Result<(), PrepareError> {
    if found.subjects.iter().all(|subject| requested.subjects.contains(subject)) {
        return Ok(());
    }
    Err(PrepareError::Foreign { stream: requested.name.clone(), subjects: found.subjects.join(", ") })
}

async fn prepare_consumer(context: &Context, requested: &pull::Config) -> Result<PullConsumer, PrepareError> {
    let name = requested.durable_name.as_deref().unwrap_or(RESULTS_CONSUMER);
    let what = format!("the consumer {name} of {SYSTEM_STREAM}");
    let found: Result<PullConsumer, _> = context.get_consumer_from_stream(name, SYSTEM_STREAM).await;
    let is_as_requested =
        |found: &PullConsumer| consumer_difference(requested, &found.cached_info().config).is_none();
    if !found.as_ref().is_ok_and(is_as_requested) {
        let created: Result<PullConsumer, _> =
            context.create_consumer_on_stream(requested.clone(), SYSTEM_STREAM).await;
        created.map_err(|error| PrepareError::Refused { what: what.clone(), reason: error.to_string() })?;
    }
    let found: PullConsumer = context
        .get_consumer_from_stream(name, SYSTEM_STREAM)
        .await
        .map_err(|error| PrepareError::no_answer(&what, &error))?;
    agree(&what, consumer_difference(requested, &found.cached_info().config))?;
    Ok(found)
}

fn stream_difference(requested: &stream::Config, found: &stream::Config) -> Option<Difference> {
    let sorted = |config: &stream::Config| {
        let mut subjects = config.subjects.clone();
        subjects.sort();
        subjects
    };
    [
        difference("subjects", &sorted(requested), &sorted(found)),
        difference("storage", &requested.storage, &found.storage),
        difference("retention", &requested.retention, &found.retention),
        difference("discard", &requested.discard, &found.discard),
        difference("max_age", &requested.max_age, &found.max_age),
        difference("max_bytes", &requested.max_bytes, &found.max_bytes),
        difference("max_msgs", &requested.max_messages, &found.max_messages),
        difference("duplicate_window", &requested.duplicate_window, &found.duplicate_window),
        difference("num_replicas", &requested.num_replicas, &found.num_replicas),
        difference("no_ack", &requested.no_ack, &found.no_ack),
    ]
    .into_iter()
    .flatten()
    .next()
}

fn consumer_difference(requested: &pull::Config, found: &consumer::Config) -> Option<Difference> {
    [
        difference("durable_name", &requested.durable_name, &found.durable_name),
        difference("deliver_subject", &None, &found.deliver_subject),
        difference("filter_subject", &requested.filter_subject, &found.filter_subject),
        difference("deliver_policy", &requested.deliver_policy, &found.deliver_policy),
        difference("ack_policy", &requested.ack_policy, &found.ack_policy),
        difference("ack_wait", &requested.ack_wait, &found.ack_wait),
        difference("max_deliver", &requested.max_deliver, &found.max_deliver),
        difference("max_ack_pending", &requested.max_ack_pending, &found.max_ack_pending),
        difference("backoff", &requested.backoff, &found.backoff),
    ]
    .into_iter()
    .flatten()
    .next()
}

fn difference<T: Debug + PartialEq>(field: &'static str, requested: &T, found: &T) -> Option<Difference> {
    (requested != found).then(|| (field, format!("{requested:?}"), format!("{found:?}")))
}

fn agree(what: &str, difference: Option<Difference>) -> Result<(), PrepareError> {
    match difference {
        None => Ok(()),
        Some((field, requested, found)) => {
            Err(PrepareError::Differs { what: what.to_owned(), field, requested, found })
        }
    }
}

fn explain(name: &str, error: &CreateStreamError) -> PrepareError {
    let what = format!("the stream {name}");
    let kind = error.kind();
    if let CreateStreamErrorKind::JetStream(refusal) = &kind {
        let reason = refusal.to_string();
        return match refusal.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                PrepareError::NoJetStream
            }
            ErrorCode::STREAM_SUBJECT_OVERLAP => PrepareError::Overlap { stream: name.to_owned(), reason },
            _ => PrepareError::Refused { what, reason },
        };
    }
    if matches!(kind, CreateStreamErrorKind::JetStreamUnavailable) {
        return PrepareError::NoJetStream;
    }
    if matches!(kind, CreateStreamErrorKind::TimedOut) {
        return PrepareError::no_answer(&what, error);
    }
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    PrepareError::Refused { what, reason }
}
