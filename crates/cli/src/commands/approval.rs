//! `interlock approval`: approve or reject pending steps.

use clap::{Args, Subcommand};
use interlock_api::approvals::ApprovalView;
use interlock_model::approval::Verdict;

use super::Session;
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::Column;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    /// List steps that wait for an approval
    List(ListFlags),
    /// Approve or reject a pending step
    #[command(
        after_help = "Example: interlock approval job 0192f0c1-…:release@1 --approve --reason 'looks good'"
    )]
    Job(VerdictFlags),
}

#[derive(Debug, Args)]
pub(crate) struct VerdictFlags {
    /// Job id, as `approval list` prints it
    job: String,
    #[command(flatten)]
    choice: VerdictChoice,
    /// Reason, recorded in the timeline
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct VerdictChoice {
    /// Let the run continue
    #[arg(long)]
    approve: bool,
    /// End the run as denied
    #[arg(long)]
    reject: bool,
}

pub(super) async fn run(command: ApprovalCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        ApprovalCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.approvals(&page).await).await
        }
        ApprovalCommand::Job(VerdictFlags { job, choice, reason }) => {
            let verdict = if choice.reject { Verdict::Rejected } else { Verdict::Approved };
            let resolved = client.resolve_approval(&job, verdict, reason).await?;
            output.result(&resolved, |resolved| resolved.job_id.to_string())
        }
    }
}

const COLUMNS: [Column<ApprovalView>; 6] = [
    ("JOB", |approval| approval.job_id.to_string()),
    ("WORKFLOW", |approval| approval.workflow_id.to_string()),
    ("STEP", |approval| approval.step_id.to_string()),
    ("REQUESTED", |approval| approval.requested_at.to_string()),
    ("WHY", |approval| approval.detail.clone().unwrap_or_else(|| "-".to_owned())),
    ("INPUT", |approval| approval.input.to_string().chars().take(80).collect()),
];
