//! A run's events as they happen, over server-sent events. The reader survives a lost connection: it goes on after the
//! last event that it delivered, on whichever replica answers.

mod parser;

use std::collections::VecDeque;
use std::time::Duration;

use interlock_model::retry::{Backoff, Seed};
use reqwest::Response;

pub use parser::{Message, Overlong, Parser};

use crate::client::{Client, Error, Result};
use crate::history::TimelineItem;

/// Failures in a row after which the reader gives up: somewhat over half a minute.
const FAILURES_MAX: u32 = 12;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(250), multiplier: 2.0, cap: Duration::from_secs(8) };

/// A stream that is silent for longer is taken for dead: the server sends comments to keep it alive.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Reads the events of one run, in order, each once, until the run has ended.
#[derive(Debug)]
pub struct RunEvents {
    client: Client,
    run: String,
    /// The last event that was delivered.
    after: u64,
    stream: Option<Stream>,
    arrived: VecDeque<TimelineItem>,
    failures: u32,
    phase: Phase,
}

#[derive(Debug)]
struct Stream {
    response: Response,
    parser: Parser,
    /// Whether anything new came over it.
    fruitful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Following,
    /// The run is known to have ended; what happened before that may still have to be read.
    LastLook,
    Ended,
}

enum Progress {
    Read,
    /// The stream ended, or has been silent for too long.
    Closed {
        fruitful: bool,
    },
}

impl RunEvents {
    /// Events after number `after`; from the first on, if it is zero.
    #[must_use]
    pub fn new(client: Client, run: impl Into<String>, after: u64) -> Self {
        Self {
            client,
            run: run.into(),
            after,
            stream: None,
            arrived: VecDeque::new(),
            failures: 0,
            phase: Phase::Following,
        }
    }

    /// The next event; none when the run has ended and everything was told.
    pub async fn next(&mut self) -> Result<Option<TimelineItem>> {
        loop {
            if let Some(item) = self.arrived.pop_front() {
                if item.seq <= self.after {
                    continue;
                }
                self.after = item.seq;
                if item.run_status().is_some_and(interlock_model::run::RunStatus::is_final) {
                    self.phase = Phase::Ended;
                }
                return Ok(Some(item));
            }
            if self.phase == Phase::Ended {
                return Ok(None);
            }
            match self.read_more().await {
                Ok(Progress::Read) => self.failures = 0,
                Ok(Progress::Closed { fruitful: true }) => {}
                Ok(Progress::Closed { fruitful: false }) => self.look_at_the_run().await?,
                Err(error) => self.take_failure(error).await?,
            }
        }
    }

    async fn read_more(&mut self) -> Result<Progress> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => Stream {
                response: self.client.events_call(&self.run, self.after).stream().await?,
                parser: Parser::default(),
                fruitful: false,
            },
        };
        let gateway = self.client.gateway();
        let chunk = match tokio::time::timeout(SILENCE_MAX, stream.response.chunk()).await {
            Err(_) => return Ok(Progress::Closed { fruitful: stream.fruitful }),
            Ok(chunk) => chunk.map_err(|error| crate::client::unreachable(gateway, &error))?,
        };
        let Some(bytes) = chunk else { return Ok(Progress::Closed { fruitful: stream.fruitful }) };
        let malformed = |reason: String| Error::Malformed {
            action: format!("the events of run {}", self.run),
            status: 200,
            reason,
        };
        for message in stream.parser.feed(&bytes).map_err(|error| malformed(error.to_string()))? {
            // Only what has a number of its own is part of the history.
            if message.id.is_some() {
                let item =
                    serde_json::from_str(&message.data).map_err(|error| malformed(error.to_string()))?;
                self.arrived.push_back(item);
                stream.fruitful = true;
            }
        }
        self.stream = Some(stream);
        Ok(Progress::Read)
    }

    /// A stream that closed without news: perhaps there will be none.
    async fn look_at_the_run(&mut self) -> Result<()> {
        if self.phase == Phase::LastLook {
            self.phase = Phase::Ended;
            return Ok(());
        }
        match self.client.run(&self.run).await {
            Ok(run) if run.status.is_final() => {
                self.phase = Phase::LastLook;
                Ok(())
            }
            Ok(_) => {
                tokio::time::sleep(BACKOFF.full_jitter(1, Seed::new(rand::random()))).await;
                Ok(())
            }
            Err(error) => self.take_failure(error).await,
        }
    }

    async fn take_failure(&mut self, error: Error) -> Result<()> {
        self.failures += 1;
        if !error.is_passing() || self.failures > FAILURES_MAX {
            return Err(error);
        }
        let jittered = BACKOFF.full_jitter(self.failures, Seed::new(rand::random()));
        tokio::time::sleep(error.retry_after().unwrap_or(jittered)).await;
        Ok(())
    }
}
