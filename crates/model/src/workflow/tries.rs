//! How often a step is tried, when, and for how long.

use std::time::Duration;

use super::compile::{InvalidWorkflow, WrittenStep, require, seconds};
use super::document::RetryDocument;
use crate::retry::{Backoff, Jitter, Seed};

const RETRIES_MAX: u32 = 1_000;

/// How often a step is tried again, and when.
#[derive(Debug, Clone, Copy)]
pub struct StepRetry {
    pub max: u32,
    pub backoff: Backoff,
    pub jitter: Jitter,
}

impl StepRetry {
    pub const NONE: Self = Self {
        max: 0,
        backoff: Backoff { initial: Duration::ZERO, multiplier: 1.0, cap: Duration::ZERO },
        jitter: Jitter::Fixed,
    };

    /// The delay after failure number `failure` (from 1), derived from the seed.
    pub fn delay(&self, failure: u32, seed: Seed) -> Duration {
        self.backoff.delay(self.jitter, failure, seed)
    }
}

impl WrittenStep<'_> {
    pub(super) fn retry(self) -> Result<StepRetry, InvalidWorkflow> {
        let Some(retry) = &self.document.retry else { return Ok(StepRetry::NONE) };
        let RetryDocument { max_retries, initial_backoff_sec, multiplier, max_backoff_sec, jitter } = *retry;
        let is_bounded = max_retries <= RETRIES_MAX;
        self.at("retry.max_retries", require(is_bounded, format!("use at most {RETRIES_MAX}")))?;
        let is_bounded = (1.0..=100.0).contains(&multiplier);
        self.at("retry.multiplier", require(is_bounded, "use a number from 1 to 100".to_owned()))?;
        let initial = self.at("retry.initial_backoff_sec", seconds(Some(initial_backoff_sec)))?;
        let cap = self.at("retry.max_backoff_sec", seconds(Some(max_backoff_sec)))?;
        let (initial, cap) = (initial.unwrap_or_default(), cap.unwrap_or_default());
        let backoff = Backoff { initial, multiplier, cap };
        // A version that an earlier release saved says nothing of it: there was no other.
        Ok(StepRetry { max: max_retries, backoff, jitter: jitter.unwrap_or(Jitter::Full) })
    }

    /// A version that an earlier release saved says nothing of it: there, `timeout_sec` included the wait.
    pub(super) fn queue_timeout(self) -> Result<Option<Duration>, InvalidWorkflow> {
        let own = self.document.timeout_sec.filter(|_| self.document.kind.is_worker());
        self.at("queue_timeout_sec", seconds(self.document.queue_timeout_sec.or(own)))
    }
}
