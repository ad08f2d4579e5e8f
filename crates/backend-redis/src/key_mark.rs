//! Whether the installation has had API keys, remembered by NATS: what empties Redis leaves it alone.

use async_nats::Client;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{self, ErrorCode, stream};
use async_trait::async_trait;
use interlock_backend::keys::KeyMark;
use interlock_backend::{Effect, StoreError};

/// A stream that exists if there were keys. It holds nothing.
pub struct NatsKeyMark {
    jetstream: jetstream::Context,
    config: stream::Config,
}

impl NatsKeyMark {
    pub fn new(client: Client, prefix: &str) -> Self {
        let config = stream::Config {
            name: format!("INTERLOCK_KEYS_{}", prefix.replace('.', "_")),
            subjects: vec![format!("interlock.{prefix}.keys")],
            description: Some(
                "This installation has had API keys. While it exists, requests need one.".to_owned(),
            ),
            max_messages: 1,
            ..stream::Config::default()
        };
        Self { jetstream: jetstream::new(client), config }
    }
}

#[async_trait]
impl KeyMark for NatsKeyMark {
    async fn is_set(&self) -> Result<bool, StoreError> {
        match self.jetstream.get_stream(&self.config.name).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(answer)
                    if answer.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    Ok(false)
                }
                GetStreamErrorKind::EmptyName
                | GetStreamErrorKind::Request
                | GetStreamErrorKind::InvalidStreamName
                | GetStreamErrorKind::JetStream(_) => {
                    Err(unavailable("ask NATS whether there were API keys", &error))
                }
            },
        }
    }

    async fn set(&self) -> Result<(), StoreError> {
        let created = self.jetstream.get_or_create_stream(self.config.clone()).await;
        created.map(drop).map_err(|error| unavailable("note in NATS that there are API keys", &error))
    }
}

fn unavailable(action: &'static str, error: &dyn std::error::Error) -> StoreError {
    StoreError::Unavailable { action, effect: Effect::NotDone, reason: error.to_string() }
}
