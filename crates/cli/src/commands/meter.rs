//! The progress of a command, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(120);

/// Cleared when dropped; draws nothing where standard error is not a terminal.
pub(super) struct Meter(ProgressBar);

impl Meter {
    /// For work of unknown length.
    pub(super) fn spinner() -> Self {
        Self::of(ProgressBar::new_spinner(), "{spinner} {elapsed} {msg}")
    }

    /// For work in parts.
    pub(super) fn bar() -> Self {
        Self::of(ProgressBar::new(0), "{elapsed} [{bar:30}] {pos}/{len} {msg}")
    }

    fn of(bar: ProgressBar, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("the template is fixed and valid");
        let bar = bar.with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(super) fn tell(&self, sentence: &str) {
        self.0.set_message(sentence.to_owned());
    }

    /// `done` of `all` parts are done.
    pub(super) fn advance(&self, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
    }

    /// Lets `write` print lines above the meter.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
