//! `interlock approval`: approve or reject pending steps.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use interlock_api::approvals::ApprovalView;
use interlock_api::runs::RunView;
use interlock_model::RunId;
use interlock_model::approval::Verdict;
use interlock_model::step::StepStatus;

use super::Session;
use crate::arguments::ListFlags;
use crate::exit::{Failure, Result};
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
    /// Job id, as `approval list` prints it, or the id of a run with one open approval
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
            let job = match job.parse::<RunId>() {
                Ok(run) => only_approval(&client.run(&job).await?, run)?,
                Err(_) => job,
            };
            let resolved = client.resolve_approval(&job, verdict, reason).await?;
            output.result(&resolved, |resolved| resolved.job_id.to_string())
        }
    }
}

/// The job of the one step of the run that waits for an approval.
fn only_approval(view: &RunView, run: RunId) -> Result<String> {
    let items = view.steps.values().flat_map(|step| step.children.iter().flat_map(BTreeMap::values));
    let waiting = view.steps.values().chain(items).filter(|step| step.status == StepStatus::Waiting);
    let open: Vec<String> = waiting.filter_map(|step| Some(step.job_id.as_ref()?.to_string())).collect();
    match open.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::Refused(format!(
            "run {run} has no open approval: it is {}. Nothing was changed",
            view.summary.status.name()
        ))),
        several => Err(Failure::Refused(format!(
            "run {run} has {} open approvals. Nothing was changed; name one of them: {}",
            several.len(),
            several.join(", ")
        ))),
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
