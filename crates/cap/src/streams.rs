//! The streams and the consumer that the edge needs, made if missing and compared with what was asked.
//!
//! Old servers drop in silence what they do not know, so nothing is taken as done that was not read back.

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

/// Why the edge cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error(
        "the NATS server has no JetStream, or not for this account: start nats-server with -js, and with -sd <folder> \
         for where its streams are kept"
    )]
    NoJetStream,
    #[error(
        "the stream {stream} already stores {subjects}, as Cordum's does, and narrowing it would take messages from \
         whoever relies on it: give Interlock a NATS account of its own, or remove the stream (nats stream rm {stream})"
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
        "NATS has {what} with {field} {found}, though {asked} was asked for; is its server older than 2.9, or does \
         something else change it?"
    )]
    Differs { what: String, field: &'static str, asked: String, found: String },
}

/// A field that is not as it should be.
type Difference = (&'static str, String, String);

/// Makes what is missing, changes what is different, and reads back what is there then.
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
        max_age: settings.stream_age_max,
        max_bytes: settings.stream_bytes_max,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_message_size: -1,
        max_consumers: -1,
        duplicate_window: DUPLICATE_WINDOW.min(settings.stream_age_max),
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
        ack_wait: settings.ack_wait,
        max_deliver: settings.max_deliver,
        max_ack_pending: settings.max_ack_pending,
        ..pull::Config::default()
    }
}

async fn prepare_stream(context: &Context, asked: stream::Config) -> Result<(), PrepareError> {
    let name = asked.name.clone();
    match context.get_stream(&name).await {
        Ok(found) => {
            let found = &found.cached_info().config;
            refuse_foreign(&asked, found)?;
            if !stream_differences(&asked, found).is_empty() {
                context.update_stream(&asked).await.map_err(|error| explain(&name, &error))?;
            }
        }
        // Not there, or no answer: the next call tells which.
        Err(_) => {
            context.create_stream(&asked).await.map_err(|error| explain(&name, &error))?;
        }
    }
    let what = format!("the stream {name}");
    let found = context.get_stream(&name).await.map_err(|error| no_answer(&what, &error))?;
    agree(&what, stream_differences(&asked, &found.cached_info().config))
}

/// A stream of this name that stores more than ours should is somebody else's.
fn refuse_foreign(asked: &stream::Config, found: &stream::Config) -> Result<(), PrepareError> {
    if found.subjects.iter().all(|subject| asked.subjects.contains(subject)) {
        return Ok(());
    }
    Err(PrepareError::Foreign { stream: asked.name.clone(), subjects: found.subjects.join(", ") })
}

async fn prepare_consumer(context: &Context, asked: &pull::Config) -> Result<PullConsumer, PrepareError> {
    let name = asked.durable_name.as_deref().unwrap_or(RESULTS_CONSUMER);
    let what = format!("the consumer {name} of {SYSTEM_STREAM}");
    let found: Result<PullConsumer, _> = context.get_consumer_from_stream(name, SYSTEM_STREAM).await;
    let is_as_asked =
        |found: &PullConsumer| consumer_differences(asked, &found.cached_info().config).is_empty();
    if !found.as_ref().is_ok_and(is_as_asked) {
        let made: Result<PullConsumer, _> =
            context.create_consumer_on_stream(asked.clone(), SYSTEM_STREAM).await;
        made.map_err(|error| PrepareError::Refused { what: what.clone(), reason: error.to_string() })?;
    }
    let found: PullConsumer = context
        .get_consumer_from_stream(name, SYSTEM_STREAM)
        .await
        .map_err(|error| no_answer(&what, &error))?;
    agree(&what, consumer_differences(asked, &found.cached_info().config))?;
    Ok(found)
}

fn stream_differences(asked: &stream::Config, found: &stream::Config) -> Vec<Difference> {
    let sorted = |config: &stream::Config| {
        let mut subjects = config.subjects.clone();
        subjects.sort();
        subjects
    };
    [
        difference("subjects", &sorted(asked), &sorted(found)),
        difference("storage", &asked.storage, &found.storage),
        difference("retention", &asked.retention, &found.retention),
        difference("discard", &asked.discard, &found.discard),
        difference("max_age", &asked.max_age, &found.max_age),
        difference("max_bytes", &asked.max_bytes, &found.max_bytes),
        difference("max_msgs", &asked.max_messages, &found.max_messages),
        difference("duplicate_window", &asked.duplicate_window, &found.duplicate_window),
        difference("num_replicas", &asked.num_replicas, &found.num_replicas),
        difference("no_ack", &asked.no_ack, &found.no_ack),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn consumer_differences(asked: &pull::Config, found: &consumer::Config) -> Vec<Difference> {
    [
        difference("durable_name", &asked.durable_name, &found.durable_name),
        difference("deliver_subject", &None, &found.deliver_subject),
        difference("filter_subject", &asked.filter_subject, &found.filter_subject),
        difference("deliver_policy", &asked.deliver_policy, &found.deliver_policy),
        difference("ack_policy", &asked.ack_policy, &found.ack_policy),
        difference("ack_wait", &asked.ack_wait, &found.ack_wait),
        difference("max_deliver", &asked.max_deliver, &found.max_deliver),
        difference("max_ack_pending", &asked.max_ack_pending, &found.max_ack_pending),
        difference("backoff", &asked.backoff, &found.backoff),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn difference<T: Debug + PartialEq>(field: &'static str, asked: &T, found: &T) -> Option<Difference> {
    (asked != found).then(|| (field, format!("{asked:?}"), format!("{found:?}")))
}

fn agree(what: &str, differences: Vec<Difference>) -> Result<(), PrepareError> {
    match differences.into_iter().next() {
        None => Ok(()),
        Some((field, asked, found)) => {
            Err(PrepareError::Differs { what: what.to_owned(), field, asked, found })
        }
    }
}

fn no_answer(what: &str, error: &dyn std::error::Error) -> PrepareError {
    PrepareError::NoAnswer { what: what.to_owned(), reason: error.to_string() }
}

fn explain(name: &str, error: &CreateStreamError) -> PrepareError {
    let what = format!("the stream {name}");
    match error.kind() {
        CreateStreamErrorKind::JetStreamUnavailable => PrepareError::NoJetStream,
        CreateStreamErrorKind::JetStream(refusal) => match refusal.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                PrepareError::NoJetStream
            }
            ErrorCode::STREAM_SUBJECT_OVERLAP => {
                PrepareError::Overlap { stream: name.to_owned(), reason: refusal.to_string() }
            }
            _ => PrepareError::Refused { what, reason: refusal.to_string() },
        },
        CreateStreamErrorKind::TimedOut => no_answer(&what, error),
        CreateStreamErrorKind::EmptyStreamName
        | CreateStreamErrorKind::InvalidStreamName
        | CreateStreamErrorKind::DomainAndExternalSet
        | CreateStreamErrorKind::Response
        | CreateStreamErrorKind::NotFound
        | CreateStreamErrorKind::ResponseParse => {
            let reason =
                std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            PrepareError::Refused { what, reason }
        }
    }
}
