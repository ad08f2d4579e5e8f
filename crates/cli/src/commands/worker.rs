//! `interlock worker run`: run a command as a worker.

mod child;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use interlock_api::worker::{self, WorkerEvent, WorkerSettings};
use interlock_model::{Tag, Topic, WorkerId};
use tokio_util::sync::CancellationToken;

use super::serve::Stops;
use super::{Session, host_name};
use crate::exit::{Exit, Result};
use crate::output::{Output, json_line, say};

const EXAMPLES: &str = "\
The command gets the job's input as JSON on standard input. What it writes to standard output
is the result: JSON, or else plain text. Exit code 0 completes the job, 65 fails it without retry,
any other code fails it so that it may be retried. Its environment has INTERLOCK_JOB_ID,
INTERLOCK_RUN_ID, INTERLOCK_STEP_ID, INTERLOCK_FENCE and INTERLOCK_ATTEMPT, and TRACEPARENT if the
run is traced. It is killed with all its children when the job is cancelled or goes to another
worker.

Examples:
  interlock worker run --topic build -- ./build.sh
  interlock worker run --topic greet --parallel 4 -- jq '{greeting: (\"hello \" + .name)}'";

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// Claim jobs and run a command for each, until stopped
    #[command(after_help = EXAMPLES)]
    Run(WorkerRunFlags),
}

#[derive(Debug, Args)]
pub(crate) struct WorkerRunFlags {
    /// Topic to claim jobs from; repeatable
    #[arg(long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<Topic>,
    /// Capability of this worker, for jobs that require it; repeatable
    #[arg(long = "capability", value_name = "TAG")]
    capabilities: Vec<Tag>,
    /// Id of the worker [default: host name and a random number]
    #[arg(long, value_name = "WORKER")]
    id: Option<WorkerId>,
    /// Run up to N jobs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    parallel: u16,
    /// Lease of a job, after which another worker may claim it if this one died [default: the server's]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1_000..=3_600_000))]
    lease_ms: Option<u64>,
    /// After a signal to stop, finish the jobs in progress for N seconds, then release them to other workers
    #[arg(long, value_name = "N")]
    release_after_sec: Option<u32>,
    /// Command with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) async fn run(WorkerCommand::Run(run): WorkerCommand, session: Session) -> Result<Exit> {
    let output = session.output;
    let id = run.id.unwrap_or_else(generate_id);
    let settings = WorkerSettings {
        capabilities: run.capabilities.iter().map(Tag::to_string).collect(),
        jobs_max: usize::from(run.parallel),
        lease: run.lease_ms.map(Duration::from_millis),
        ..WorkerSettings::new(id.clone(), run.topics)
    };
    let topics: Vec<&str> = settings.topics.iter().map(Topic::as_str).collect();
    say(&format!("worker {id} waits for jobs of {}", topics.join(", ")));
    let command = Arc::new(run.command);
    let handler = move |job| {
        let command = command.clone();
        async move { child::execute(&command, &job).await }
    };
    let (stop, release) = (CancellationToken::new(), CancellationToken::new());
    let worker = worker::Worker::new(session.client, settings, handler)
        .observed(move |event| tell(output, &event))
        .released_on(release.clone());
    let grace = run.release_after_sec.map(|seconds| Duration::from_secs(seconds.into()));
    tokio::select! {
        end = worker.run(stop.clone()) => end?,
        asked = stop_on_signals((&stop, &release), grace) => {
            asked?;
            return Ok(Exit::Refused);
        }
    }
    Ok(Exit::Done)
}

/// The first signal stops claiming. The second, or the end of the grace, releases the jobs in progress. After the next this
/// returns, and the caller drops them.
async fn stop_on_signals(
    (stop, release): (&CancellationToken, &CancellationToken),
    grace: Option<Duration>,
) -> Result<()> {
    let mut stops = Stops::listen()?;
    stops.next().await;
    say("finishing the jobs in progress; a second signal releases them to other workers");
    stop.cancel();
    let forever = Duration::from_secs(u64::MAX);
    // A signal and the end of the grace mean the same.
    let _ = tokio::time::timeout(grace.unwrap_or(forever), stops.next()).await;
    say("releasing the jobs in progress; another signal stops at once");
    release.cancel();
    stops.next().await;
    say("stopped at once");
    Ok(())
}

fn tell(output: Output, event: &WorkerEvent<'_>) {
    if output.is_json() {
        // A closed pipe must not end the work.
        let _read = json_line(event);
    } else {
        say(&sentence(event));
    }
}

fn sentence(event: &WorkerEvent<'_>) -> String {
    match event {
        WorkerEvent::Claimed { job_id, fence } => format!("{job_id} claimed with fence {fence}"),
        WorkerEvent::Completed { job_id, .. } => format!("{job_id} completed"),
        WorkerEvent::Failed { job_id, error, retryable: true } => format!("{job_id} failed: {error}"),
        WorkerEvent::Failed { job_id, error, retryable: false } => {
            format!("{job_id} failed without retry: {error}")
        }
        WorkerEvent::Released { job_id } => format!("{job_id} released: another worker may have it"),
        WorkerEvent::Dropped { job_id, reason } => format!("{job_id} abandoned: {reason}"),
        WorkerEvent::Refused { job_id, error } => format!("{job_id}: result rejected: {error}"),
        WorkerEvent::Waiting { error, wait_ms } => format!("{error}; retrying in {wait_ms} ms"),
    }
}

/// The host's name, for people to recognize, and a number that makes it unique.
fn generate_id() -> WorkerId {
    format!("{}-{:08x}", host_name(), rand::random::<u32>()).parse().expect("letters and digits make an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_valid_and_differ() {
        assert_ne!(generate_id(), generate_id());
    }
}
