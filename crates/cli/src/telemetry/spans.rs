//! Spans for an OpenTelemetry collector, sent in batches by a thread of their own: a collector that is slow or
//! unreachable costs spans and nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::exit::{Failure, Result};

const SERVICE: &str = "interlock";

/// The path of traces, as the OTLP standard defines it.
const PATH: &str = "/v1/traces";

/// The period of batches, and how long one may take, the last one included.
const GATHER: Duration = Duration::from_secs(1);
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Spans that may wait; more are dropped.
const WAITING_MAX: usize = 8_192;

pub(super) struct SpanSender {
    processor: Arc<BatchSpanProcessor>,
}

impl SpanSender {
    pub(super) fn begin(endpoint: &str) -> Result<Self> {
        // The exporter makes a TLS client even for an address without TLS.
        interlock_api::client::install_tls();
        let base = endpoint.trim_end_matches('/');
        let address = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        let exporter = SpanExporter::builder().with_http().with_endpoint(address);
        let exporter = exporter.with_protocol(Protocol::HttpBinary).with_timeout(SEND_WITHIN).build();
        let exporter =
            exporter.map_err(|error| Failure::Usage(format!("--otlp-endpoint {endpoint}: {error}")))?;
        let gathering =
            BatchConfigBuilder::default().with_scheduled_delay(GATHER).with_max_queue_size(WAITING_MAX);
        let mut processor =
            BatchSpanProcessor::builder(exporter).with_batch_config(gathering.build()).build();
        processor.set_resource(&Resource::builder().with_service_name(SERVICE).build());
        Ok(Self { processor: Arc::new(processor) })
    }

    pub(super) fn layer(&self) -> Spans {
        let scope = InstrumentationScope::builder(SERVICE).with_version(env!("CARGO_PKG_VERSION")).build();
        Spans { processor: self.processor.clone(), scope }
    }

    /// Sends what is left, on a thread that may block.
    pub(super) async fn end(self) {
        let last = tokio::task::spawn_blocking(move || self.processor.shutdown_with_timeout(SEND_WITHIN));
        if let Ok(Err(error)) = last.await {
            tracing::warn!(%error, "last spans not sent");
        }
    }
}

/// Turns each event of the target into a span.
pub(super) struct Spans {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = SpanFields::default();
        event.record(&mut fields);
        self.processor.on_end(fields.span(self.scope.clone()));
    }
}

/// The fields of an event that describe a span.
#[derive(Default)]
struct SpanFields {
    name: String,
    trace: u128,
    span: u64,
    parent: u64,
    took: Duration,
    attributes: Vec<KeyValue>,
}

impl SpanFields {
    #[expect(clippy::disallowed_methods, reason = "spans are recorded when they end, for people to read")]
    fn span(self, scope: InstrumentationScope) -> SpanData {
        let (end_time, trace) = (SystemTime::now(), TraceId::from(self.trace));
        let kind = if self.name == "start" { SpanKind::Server } else { SpanKind::Internal };
        let own = SpanId::from(self.span);
        SpanData {
            span_context: SpanContext::new(trace, own, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: SpanId::from(self.parent),
            parent_span_is_remote: self.name == "start",
            span_kind: kind,
            name: self.name.into(),
            start_time: end_time.checked_sub(self.took).unwrap_or(end_time),
            end_time,
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: scope,
        }
    }
}

impl Visit for SpanFields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "span_id" => self.span = value,
            "parent_id" => self.parent = value,
            "took_us" => self.took = Duration::from_micros(value),
            _ => {}
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        if field.name() == "trace_id" {
            self.trace = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "span_name" {
            value.clone_into(&mut self.name);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "tenant" | "run" | "job") {
            self.attributes.push(KeyValue::new(format!("interlock.{}", field.name()), format!("{value:?}")));
        }
    }
}
