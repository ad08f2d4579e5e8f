//! `interlock dlq`: jobs that were given up on.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::dead_letters::DeadLetterView;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::Result;
use crate::output::{fields, or_dash, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Dlq {
    /// The dead letters, those of the newest runs first
    List(Listing),
    /// One dead letter
    #[command(after_help = "Example: interlock dlq show 0192f0c1-…:build@10")]
    Show { job: String },
    /// Forget a dead letter; its job and its run stay as they are
    Delete { job: String },
}

pub(super) async fn run(dlq: Dlq, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match dlq {
        Dlq::List(listing) => {
            let page = pages::collect(listing, async |query| client.dead_letters(&query).await).await?;
            output.result(&page, overview)
        }
        Dlq::Show { job } => output.result(&client.dead_letter(&job).await?, describe),
        Dlq::Delete { job } => {
            client.delete_dead_letter(&job).await?;
            output.done(
                &json!({"job_id": job, "deleted": true}),
                &format!("the dead letter of {job} is deleted"),
            )
        }
    }
}

fn overview(page: &Page<DeadLetterView>) -> String {
    let row = |letter: &DeadLetterView| {
        [
            letter.job_id.to_string(),
            or_dash(letter.topic.as_ref()),
            letter.reason_code.clone(),
            letter.attempts.to_string(),
            letter.created_at.to_string(),
            letter.reason.chars().take(80).collect(),
        ]
    };
    table(["JOB", "TOPIC", "CODE", "ATTEMPTS", "CREATED", "REASON"], page.items.iter().map(row))
}

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
    ])
}
