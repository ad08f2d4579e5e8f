//! A run's events as they happen, over server-sent events. After a lost connection the reader resumes after the last event
//! that it delivered, on any replica.

mod parser;

use std::collections::VecDeque;
use std::time::Duration;

use interlock_model::retry::{Backoff, Seed};
use reqwest::Response;

use parser::SseParser;

use crate::client::{Client, Error, Result};
use crate::history::TimelineItem;

/// Failures in a row after which the reader gives up: about half a minute.
const FAILURES_MAX: u32 = 12;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(250), multiplier: 2.0, cap: Duration::from_secs(8) };

/// A stream that is silent for longer is considered dead: the server sends comments to keep it alive.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Reads the events of one run, in order, each once, until the run has ended.
#[derive(Debug)]
pub struct RunEvents {
    client: Client,
    run: String,
    /// The last event that was delivered.
    after: u64,
    stream: Option<EventStream>,
    arrived: VecDeque<TimelineItem>,
    failures: u32,
    phase: Phase,
}

#[derive(Debug)]
struct EventStream {
    response: Response,
    parser: SseParser,
    /// Whether it brought any event.
    had_events: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Following,
    /// The run has ended; its last events may be unread.
    Draining,
    Ended,
}

enum ReadOutcome {
    Read,
    /// The stream ended, or was silent for too long.
    Closed {
        had_events: bool,
    },
}

impl RunEvents {
    pub fn new(client: Client, run: impl Into<String>) -> Self {
        Self {
            client,
            run: run.into(),
            after: 0,
            stream: None,
            arrived: VecDeque::new(),
            failures: 0,
            phase: Phase::Following,
        }
    }

    /// The next event; none after the last event of an ended run.
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
                Ok(ReadOutcome::Read) => self.failures = 0,
                Ok(ReadOutcome::Closed { had_events: true }) => {}
                Ok(ReadOutcome::Closed { had_events: false }) => self.check_run().await?,
                Err(error) => self.back_off(error).await?,
            }
        }
    }

    async fn read_more(&mut self) -> Result<ReadOutcome> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => EventStream {
                response: self.client.events_call(&self.run, self.after).stream().await?,
                parser: SseParser::default(),
                had_events: false,
            },
        };
        let gateway = self.client.gateway();
        let chunk = match tokio::time::timeout(SILENCE_MAX, stream.response.chunk()).await {
            Err(_) => return Ok(ReadOutcome::Closed { had_events: stream.had_events }),
            Ok(chunk) => chunk.map_err(|error| crate::client::unreachable(gateway, &error))?,
        };
        let Some(bytes) = chunk else { return Ok(ReadOutcome::Closed { had_events: stream.had_events }) };
        let malformed = |reason: String| Error::Malformed {
            action: format!("GET events of run {}", self.run),
            status: 200,
            reason,
        };
        for message in stream.parser.feed(&bytes).map_err(|error| malformed(error.to_string()))? {
            // Only numbered messages are events of the run.
            if message.id.is_some() {
                let item =
                    serde_json::from_str(&message.data).map_err(|error| malformed(error.to_string()))?;
                self.arrived.push_back(item);
                stream.had_events = true;
            }
        }
        self.stream = Some(stream);
        Ok(ReadOutcome::Read)
    }

    /// After a stream without events: the run may have ended.
    async fn check_run(&mut self) -> Result<()> {
        if self.phase == Phase::Draining {
            self.phase = Phase::Ended;
            return Ok(());
        }
        match self.client.run(&self.run).await {
            Ok(run) if run.summary.status.is_final() => {
                self.phase = Phase::Draining;
                Ok(())
            }
            Ok(_) => {
                tokio::time::sleep(BACKOFF.full_jitter(1, Seed::new(rand::random()))).await;
                Ok(())
            }
            Err(error) => self.back_off(error).await,
        }
    }

    async fn back_off(&mut self, error: Error) -> Result<()> {
        self.failures += 1;
        if !error.is_transient() || self.failures > FAILURES_MAX {
            return Err(error);
        }
        let jittered = BACKOFF.full_jitter(self.failures, Seed::new(rand::random()));
        tokio::time::sleep(error.retry_after().unwrap_or(jittered)).await;
        Ok(())
    }
}
