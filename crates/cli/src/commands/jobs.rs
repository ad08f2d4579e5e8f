//! `interlock jobs`: inspect and cancel jobs.

use clap::{Args, Subcommand};
use interlock_api::jobs::{JobQuery, JobView};
use interlock_model::job::JobState;
use serde_json::json;

use super::Session;
use crate::arguments::{IdArgument, ListFlags, one_of};
use crate::exit::Result;
use crate::output::{Column, fields, or_dash};

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, newest first
    List(JobListFlags),
    /// Show one job
    Get(IdArgument),
    /// Cancel an open job; its step fails as cancelled
    Cancel(IdArgument),
}

#[derive(Debug, Args)]
pub(crate) struct JobListFlags {
    /// Only jobs in this state
    #[arg(long, value_parser = one_of(JobState::ALL, JobState::name))]
    state: Option<JobState>,
    #[command(flatten)]
    listing: ListFlags,
}

pub(super) async fn run(command: JobsCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        JobsCommand::List(JobListFlags { state, listing }) => {
            session.list(listing, &COLUMNS, async |page| client.jobs(&JobQuery { state, page }).await).await
        }
        JobsCommand::Get(IdArgument { id }) => output.result(&client.job(&id).await?, describe),
        JobsCommand::Cancel(IdArgument { id }) => {
            client.cancel_job(&id).await?;
            output.done(&json!({"job_id": id, "cancelled": true}), &format!("job {id} cancelled"))
        }
    }
}

const COLUMNS: [Column<JobView>; 5] = [
    ("JOB", |job| job.job_id.to_string()),
    ("TOPIC", |job| job.topic.to_string()),
    ("STATE", |job| job.state.name().to_owned()),
    ("WORKER", |job| or_dash(job.worker_id.as_ref())),
    ("CREATED", |job| job.created_at.to_string()),
];

fn describe(job: &JobView) -> String {
    let time = |time: Option<interlock_api::Time>| time.map(|time| time.to_string());
    fields(&[
        ("job", Some(job.job_id.to_string())),
        ("workflow", Some(job.workflow_id.to_string())),
        ("topic", Some(job.topic.to_string())),
        ("state", Some(job.state.name().to_owned())),
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
