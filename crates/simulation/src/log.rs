//! What happened, in order: always as a hash, and as lines for a reader.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

pub(crate) struct Log {
    hasher: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Log {
    /// Only the hash.
    pub(crate) fn silent() -> Self {
        Self { hasher: DefaultHasher::new(), lines: None }
    }

    pub(crate) fn telling() -> Self {
        Self { hasher: DefaultHasher::new(), lines: Some(Vec::new()) }
    }

    /// One thing that happened. `details` are worth their cost only to a reader, and are not hashed.
    pub(crate) fn note(&mut self, at: Duration, (who, what): (&str, &str), details: impl FnOnce() -> String) {
        (at, who, what).hash(&mut self.hasher);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9.3}s {who:<4} {what} {}", at.as_secs_f64(), details()));
        }
    }

    /// Something that belongs to the history without being an event.
    pub(crate) fn mix(&mut self, value: &impl Hash) {
        value.hash(&mut self.hasher);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
