//! `interlock dlq`: inspect, retry and delete dead letters.

use clap::{ArgGroup, Args, Subcommand};
use interlock_api::dead_letters::{DeadLetterView, DeadLettersAnswer, DeadLettersRequest};
use interlock_model::{RunId, Timestamp, Topic};
use serde_json::json;

use super::Session;
use crate::arguments::{IdArgument, ListFlags};
use crate::exit::{Exit, Result};
use crate::output::{Column, Output, fields, grid, or_dash, say};

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, those of the newest runs first
    List(ListFlags),
    /// Show one dead letter
    #[command(after_help = "Example: interlock dlq show 0192f0c1-…:build@10")]
    Show(IdArgument),
    /// Retry the step of one dead letter, or of all that match, in its run
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(DeadLetterFilter),
    /// Delete one dead letter, or all that match; jobs and runs stay as they are
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(DeadLetterFilter),
}

const RETRY_EXAMPLES: &str = "\
Examples:
  interlock dlq retry '0192f0c1-…:build@10'
  interlock dlq retry --reason-code worker_lost --topic build --dry-run";

const DELETE_EXAMPLES: &str = "\
Examples:
  interlock dlq delete '0192f0c1-…:build@10'
  interlock dlq delete --before 2026-11-01T00:00:00Z";

/// One dead letter by its job, or all that match.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true)
    .args(["job", "all", "reason_code", "topic", "run", "before"])))]
pub(crate) struct DeadLetterFilter {
    /// Job id of one dead letter
    #[arg(conflicts_with_all = ["all", "reason_code", "topic", "run", "before", "dry_run", "limit"])]
    job: Option<String>,
    /// All dead letters
    #[arg(long, conflicts_with_all = ["reason_code", "topic", "run", "before"])]
    all: bool,
    /// Only those with this code: `worker_lost` or `result_unhandled`
    #[arg(long, value_name = "CODE")]
    reason_code: Option<String>,
    /// Only those of this topic
    #[arg(long)]
    topic: Option<Topic>,
    /// Only those of this run
    #[arg(long)]
    run: Option<RunId>,
    /// Only those created before this time, such as 2026-11-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    before: Option<Timestamp>,
    /// Show what would be done without doing it
    #[arg(long)]
    dry_run: bool,
    /// Handle at most N dead letters
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

impl DeadLetterFilter {
    fn request(self) -> DeadLettersRequest {
        DeadLettersRequest {
            reason_code: self.reason_code,
            topic: self.topic,
            run_id: self.run,
            before: self.before.map(Into::into),
            all: self.all,
            dry_run: self.dry_run,
            limit: Some(self.limit),
        }
    }
}

pub(super) async fn run(command: DlqCommand, session: &Session) -> Result<Exit> {
    let Session { client, output, .. } = session;
    match command {
        DlqCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.dead_letters(&page).await).await?;
        }
        DlqCommand::Show(IdArgument { id }) => output.result(&client.dead_letter(&id).await?, describe)?,
        DlqCommand::Retry(DeadLetterFilter { job: Some(job), .. }) => {
            let retried = client.retry_dead_letter(&job).await?;
            output.done(&json!(retried), &format!("{job} is retried by its run"))?;
        }
        DlqCommand::Retry(filter) => {
            return show_outcomes(*output, &client.retry_dead_letters(&filter.request()).await?, "retried");
        }
        DlqCommand::Delete(DeadLetterFilter { job: Some(job), .. }) => {
            client.delete_dead_letter(&job).await?;
            let sentence = format!("dead letter of {job} deleted");
            output.done(&json!({"job_id": job, "deleted": true}), &sentence)?;
        }
        DlqCommand::Delete(filter) => {
            return show_outcomes(*output, &client.delete_dead_letters(&filter.request()).await?, "deleted");
        }
    }
    Ok(Exit::Done)
}

/// One that was refused makes the whole command a refusal.
fn show_outcomes(output: Output, answer: &DeadLettersAnswer, done: &str) -> Result<Exit> {
    output.result(answer, |answer| outcomes(answer, done))?;
    if answer.more && !output.is_json() {
        say("more dead letters match: repeat the command");
    }
    Ok(if answer.refused.is_empty() { Exit::Done } else { Exit::Refused })
}

fn outcomes(answer: &DeadLettersAnswer, done: &str) -> String {
    let done = if answer.dry_run { format!("would be {done}") } else { done.to_owned() };
    let done = answer.done.iter().map(|job| vec![job.to_string(), done.clone()]);
    let refused = answer.refused.iter().map(|letter| vec![letter.job_id.to_string(), letter.reason.clone()]);
    grid(&["JOB", "OUTCOME"], done.chain(refused))
}

const COLUMNS: [Column<DeadLetterView>; 6] = [
    ("JOB", |letter| letter.job_id.to_string()),
    ("TOPIC", |letter| or_dash(letter.topic.as_ref())),
    ("CODE", |letter| letter.reason_code.clone()),
    ("ATTEMPTS", |letter| letter.attempts.to_string()),
    ("CREATED", |letter| letter.created_at.to_string()),
    ("REASON", |letter| letter.reason.chars().take(80).collect()),
];

fn describe(letter: &DeadLetterView) -> String {
    fields(&[
        ("job", Some(letter.job_id.to_string())),
        ("run", Some(letter.run_id.to_string())),
        ("topic", letter.topic.as_ref().map(ToString::to_string)),
        ("code", Some(letter.reason_code.clone())),
        ("reason", Some(letter.reason.clone())),
        ("attempts", Some(letter.attempts.to_string())),
        ("last error", letter.last_error.clone()),
        ("created", Some(letter.created_at.to_string())),
        ("result", letter.result.as_ref().map(ToString::to_string)),
        ("retry", letter.how_to_retry.clone()),
    ])
}
