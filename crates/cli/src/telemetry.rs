//! The server's log, to standard error, and its spans, to a collector.

mod repeats;
#[cfg(feature = "otel")]
mod spans;

use std::io::{self, IsTerminal};

use interlock_control::traces::TARGET;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{LogFormat, ServeConfig};
use crate::exit::{Failure, Result};
use repeats::Repeats;

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Ends with the server: spans that were not sent yet are sent first.
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    spans: Option<spans::SpanSender>,
}

#[cfg(feature = "otel")]
impl Telemetry {
    pub(crate) fn begin(config: &ServeConfig) -> Result<Self> {
        let log = log(config)?;
        let spans = config.otlp_endpoint.as_deref().map(spans::SpanSender::begin).transpose()?;
        let layer = spans.as_ref().map(|spans| only_spans(spans.layer()));
        tracing_subscriber::registry().with(vec![log].into_iter().chain(layer).collect::<Vec<_>>()).init();
        Ok(Self { spans })
    }

    pub(crate) async fn end(self) {
        if let Some(spans) = self.spans {
            spans.end().await;
        }
    }
}

#[cfg(not(feature = "otel"))]
impl Telemetry {
    pub(crate) fn begin(config: &ServeConfig) -> Result<Self> {
        if config.otlp_endpoint.is_some() {
            let sentence =
                "--otlp-endpoint: this binary was built without traces; build it with the feature `otel`";
            return Err(Failure::Usage(sentence.to_owned()));
        }
        tracing_subscriber::registry().with(vec![log(config)?]).init();
        Ok(Self {})
    }

    pub(crate) async fn end(self) {}
}

#[cfg(feature = "otel")]
fn only_spans(layer: impl Layer<Registry> + Send + Sync) -> BoxedLayer {
    layer.with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO)).boxed()
}

fn log(config: &ServeConfig) -> Result<BoxedLayer> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("--log-level {}: {error}", config.log_level));
    let filter = EnvFilter::try_new(&config.log_level).map_err(|error| wrong(&error))?;
    // Spans are not log lines.
    let filter = filter.add_directive(format!("{TARGET}=off").parse().map_err(|error| wrong(&error))?);
    let repeats = Repeats::default();
    tokio::spawn(repeats.clone().report());
    let filter = filter.and(repeats);
    // Standard output is for the line that says that the server is ready.
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    Ok(match config.log_format {
        LogFormat::Json => log.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed(),
    })
}
