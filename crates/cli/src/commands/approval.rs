//! `interlock approval`: the questions that runs wait for, and their answers.

use clap::{Args, Subcommand};
use interlock_api::Page;
use interlock_api::approvals::ApprovalView;
use interlock_model::approval::Verdict;

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::Result;
use crate::output::table;

#[derive(Debug, Subcommand)]
pub(crate) enum Approval {
    /// The open questions
    List(Listing),
    /// Answer one
    #[command(
        after_help = "Example: interlock approval job 0192f0c1-…:release@1 --approve --reason 'looks good'"
    )]
    Job(Answer),
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    job: String,
    #[command(flatten)]
    choice: Choice,
    /// Why, for the timeline
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Choice {
    /// Let the run go on
    #[arg(long)]
    approve: bool,
    /// End the run as denied
    #[arg(long)]
    reject: bool,
}

pub(super) async fn run(approval: Approval, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match approval {
        Approval::List(listing) => {
            let page = pages::collect(listing, async |query| client.approvals(&query).await).await?;
            output.result(&page, overview)
        }
        Approval::Job(Answer { job, choice, reason }) => {
            let verdict = if choice.reject { Verdict::Rejected } else { Verdict::Approved };
            let resolved = client.resolve_approval(&job, verdict, reason).await?;
            output.result(&resolved, |resolved| resolved.job_id.to_string())
        }
    }
}

fn overview(page: &Page<ApprovalView>) -> String {
    let row = |approval: &ApprovalView| {
        [
            approval.job_id.to_string(),
            approval.workflow_id.to_string(),
            approval.step_id.to_string(),
            approval.requested_at.to_string(),
            approval.input.to_string().chars().take(80).collect(),
        ]
    };
    table(["JOB", "WORKFLOW", "STEP", "REQUESTED", "INPUT"], page.items.iter().map(row))
}
