//! How far a command has come, for whoever sits at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(120);

/// Gone with its guard, and never seen where no terminal is.
pub(super) struct Meter(ProgressBar);

impl Meter {
    /// Of something whose end is not known.
    pub(super) fn spinner() -> Self {
        Self::of(ProgressBar::new_spinner(), "{spinner} {elapsed} {msg}")
    }

    /// Of something that comes in parts.
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

    /// So many of so many parts are done.
    pub(super) fn advance(&self, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
