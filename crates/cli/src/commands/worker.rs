//! `interlock worker run`: a worker that runs a command for each job.

mod child;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use interlock_api::worker::{self, Notice, Outcome, Settings};
use interlock_model::{Tag, Topic, WorkerId};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Session;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, json_line, say};

const EXAMPLES: &str = "\
The command gets the job's input as JSON on standard input. What it writes to standard output
is the result: JSON, or else plain text. Exit code 0 completes the job, 65 fails it for good,
anything else fails it so that it may be tried again. In its environment it finds
INTERLOCK_JOB_ID, INTERLOCK_RUN_ID, INTERLOCK_STEP_ID, INTERLOCK_FENCE and INTERLOCK_ATTEMPT.
It is killed with all its children when the job is cancelled or goes to another worker.

Examples:
  interlock worker run --topic build -- ./build.sh
  interlock worker run --topic greet --parallel 4 -- jq '{greeting: (\"hello \" + .name)}'";

#[derive(Debug, Subcommand)]
pub(crate) enum Worker {
    /// Claim jobs and run a command for each, until stopped
    #[command(after_help = EXAMPLES)]
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to work on; may be given more than once
    #[arg(long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<Topic>,
    /// What this worker is capable of, for jobs that require it; may be given more than once
    #[arg(long = "capability", value_name = "TAG")]
    capabilities: Vec<Tag>,
    /// The worker's name [default: made up]
    #[arg(long, value_name = "WORKER")]
    id: Option<WorkerId>,
    /// Jobs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    parallel: u16,
    /// How long a job stays with this worker when it dies
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1_000..=3_600_000))]
    lease_ms: Option<u64>,
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) async fn run(Worker::Run(run): Worker, session: Session) -> Result<Exit> {
    let output = session.output;
    let id = run.id.unwrap_or_else(made_up_id);
    let settings = Settings {
        capabilities: run.capabilities.iter().map(Tag::to_string).collect(),
        jobs_max: usize::from(run.parallel),
        lease: run.lease_ms.map(Duration::from_millis),
        ..Settings::new(id.clone(), run.topics)
    };
    let topics: Vec<&str> = settings.topics.iter().map(Topic::as_str).collect();
    say(&format!("worker {id} waits for jobs on {}", topics.join(", ")));
    let command = Arc::new(run.command);
    let handler = move |job| {
        let command = command.clone();
        async move { child::execute(&command, &job).await }
    };
    let worker =
        worker::Worker::new(session.client, settings, handler).watched(move |notice| tell(output, &notice));
    let stop = CancellationToken::new();
    tokio::select! {
        end = worker.run(stop.clone()) => end?,
        asked = stop_on_signals(&stop) => {
            asked?;
            return Ok(Exit::Refused);
        }
    }
    Ok(Exit::Done)
}

/// The first signal stops the claiming; the second ends everything, by letting the caller go on.
async fn stop_on_signals(stop: &CancellationToken) -> Result<()> {
    let listen = |kind| signal(kind).map_err(Failure::local("listen for signals"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    for sentence in ["finishing what is in hand; once more ends it at once", "stopped at once"] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        say(sentence);
        stop.cancel();
    }
    Ok(())
}

fn tell(output: Output, notice: &Notice<'_>) {
    if output.is_json() {
        // A reader that has gone must not end the work.
        let _read = json_line(&as_json(notice));
    } else {
        say(&as_sentence(notice));
    }
}

fn as_sentence(notice: &Notice<'_>) -> String {
    match notice {
        Notice::Claimed(job) => format!("{} begins (fence {})", job.job_id, job.fence),
        Notice::Reported { job, outcome: Outcome::Completed { .. } } => format!("{job} is complete"),
        Notice::Reported { job, outcome: Outcome::Failed { error, retryable } } => {
            let kind = if *retryable { "failed" } else { "failed for good" };
            format!("{job} {kind}: {error}")
        }
        Notice::Dropped { job, loss } => format!("{job} is dropped: {loss}"),
        Notice::Refused { job, error } => format!("{job}: the result was not taken: {error}"),
        Notice::Waiting { error, wait } => format!("{error}; asking again in {} ms", wait.as_millis()),
    }
}

fn as_json(notice: &Notice<'_>) -> Value {
    match notice {
        Notice::Claimed(job) => json!({"event": "claimed", "job_id": job.job_id, "fence": job.fence}),
        Notice::Reported { job, outcome: Outcome::Completed { output } } => {
            json!({"event": "completed", "job_id": job, "output": output})
        }
        Notice::Reported { job, outcome: Outcome::Failed { error, retryable } } => {
            json!({"event": "failed", "job_id": job, "error": error, "retryable": retryable})
        }
        Notice::Dropped { job, loss } => {
            json!({"event": "dropped", "job_id": job, "reason": loss.to_string()})
        }
        Notice::Refused { job, error } => {
            json!({"event": "refused", "job_id": job, "error": error.to_string()})
        }
        Notice::Waiting { error, wait } => {
            let wait_ms = interlock_model::time::millis(*wait);
            json!({"event": "waiting", "error": error.to_string(), "wait_ms": wait_ms})
        }
    }
}

/// The machine's name, so that people recognize it, and a number, so that it is nobody else's.
fn made_up_id() -> WorkerId {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    let host = if host.is_empty() { "worker" } else { &host };
    format!("{host}-{:08x}", rand::random::<u32>()).parse().expect("letters and digits make a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_ids_are_valid_and_differ() {
        assert_ne!(made_up_id(), made_up_id());
    }
}
