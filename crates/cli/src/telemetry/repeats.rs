//! Equal log lines, at a limited rate: a fault that every request meets must not fill the disk with one sentence.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// Warnings and errors of one place in the code that are logged in one period. The rest is counted.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// What was logged lately, by its place in the code.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats {
    places: Arc<Mutex<HashMap<Identifier, Place>>>,
}

#[derive(Debug)]
struct Place {
    began: Instant,
    lines: u32,
    left_out: u64,
    message: String,
}

impl Repeats {
    fn may_log(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN {
            return true;
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(metadata.callsite()).or_insert_with(|| {
            let mut message = Message::default();
            event.record(&mut message);
            Place { began: now, lines: 0, left_out: 0, message: message.0 }
        });
        if place.began + PERIOD <= now {
            (place.began, place.lines) = (now, 0);
        }
        place.lines += 1;
        let may_log = place.lines <= LINES_MAX;
        place.left_out += u64::from(!may_log);
        may_log
    }

    /// What was left out since the last call, with how often.
    fn left_out(&self) -> Vec<(String, u64)> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let places = places.values_mut().filter(|place| place.left_out > 0);
        places.map(|place| (place.message.clone(), std::mem::take(&mut place.left_out))).collect()
    }

    /// Logs how much was left out, for as long as it runs.
    pub(super) async fn report(self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            for (like, left_out) in self.left_out() {
                tracing::warn!(left_out, like, "log lines like this were left out");
            }
        }
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.may_log(event, Instant::now())
    }
}

/// The sentence of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::layer::{Layer, SubscriberExt};

    use super::*;

    /// Lines that were written.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_becomes_a_few_lines_and_a_number() {
        let (lines, repeats) = (Lines::default(), Repeats::default());
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(repeats.clone()));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..1_000 {
                tracing::warn!(number, "the store is away");
                tracing::info!("all is well");
            }
            tracing::warn!("another trouble");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("the store is away").count(), 10);
        assert_eq!(text.matches("all is well").count(), 1_000);
        assert_eq!(text.matches("another trouble").count(), 1);
        assert_eq!(repeats.left_out(), [("the store is away".to_owned(), 990)]);
        assert_eq!(repeats.left_out(), []);
    }
}
