//! `interlock jobs`: inspect and cancel jobs.

use clap::{Args, Subcommand};
use interlock_api::jobs::{JobQuery, JobView};
use interlock_api::{Page, schema};
use interlock_model::job::JobState;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::{fields, or_dash, table};

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, newest first
    List(JobListFlags),
    /// Show one job
    Get {
        /// Job id
        id: String,
    },
    /// Cancel an open job; its step fails as cancelled
    Cancel {
        /// Job id
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JobListFlags {
    /// Only jobs in this state: held, queued, running, succeeded, failed, lost, cancelled or denied
    #[arg(long, value_parser = job_state)]
    state: Option<JobState>,
    #[command(flatten)]
    listing: ListFlags,
}

pub(super) async fn run(command: JobsCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        JobsCommand::List(JobListFlags { state, listing }) => {
            let page = pages::collect(listing, async |page| {
                client.jobs(&JobQuery { state, limit: page.limit, cursor: page.cursor }).await
            });
            output.result(&page.await?, overview)
        }
        JobsCommand::Get { id } => output.result(&client.job(&id).await?, describe),
        JobsCommand::Cancel { id } => {
            client.cancel_job(&id).await?;
            output.done(&json!({"job_id": id, "cancelled": true}), &format!("job {id} cancelled"))
        }
    }
}

fn overview(page: &Page<JobView>) -> String {
    let row = |job: &JobView| {
        [
            job.job_id.to_string(),
            job.topic.to_string(),
            schema::name(&job.state),
            or_dash(job.worker_id.as_ref()),
            job.created_at.to_string(),
        ]
    };
    table(["JOB", "TOPIC", "STATE", "WORKER", "CREATED"], page.items.iter().map(row))
}

fn describe(job: &JobView) -> String {
    let time = |time: Option<interlock_api::Time>| time.map(|time| time.to_string());
    fields(&[
        ("job", Some(job.job_id.to_string())),
        ("workflow", Some(job.workflow_id.to_string())),
        ("topic", Some(job.topic.to_string())),
        ("state", Some(schema::name(&job.state))),
        ("waits for", job.waiting_for.as_ref().map(|cause| format!("{} ({})", cause.detail, cause.reason))),
        ("worker", job.worker_id.as_ref().map(ToString::to_string)),
        ("fence", job.fence.map(|fence| fence.to_string())),
        ("created", Some(job.created_at.to_string())),
        ("claimed", time(job.claimed_at)),
        ("lease ends", time(job.lease_expires_at)),
        ("ended", time(job.ended_at)),
        ("input", Some(job.input.to_string())),
    ])
}

fn job_state(text: &str) -> std::result::Result<JobState, String> {
    let found = schema::JOB_STATES.into_iter().find(|state| schema::name(state) == text);
    found.ok_or_else(|| {
        let names: Vec<String> = schema::JOB_STATES.iter().map(schema::name).collect();
        format!("expected one of: {}", names.join(", "))
    })
}
