//! `interlock workflow`: create, show and delete workflows.

use clap::{Args, Subcommand};
use interlock_api::workflows::{PauseWorkflowRequest, PausedStarts, WorkflowView};
use serde_json::json;

use super::Session;
use crate::arguments::{IdArgument, ListFlags};
use crate::exit::Result;
use crate::input;
use crate::output::{Column, pretty};

const CREATE_EXAMPLES: &str = "\
Example, with build.json:
  {\"id\": \"build\", \"name\": \"Build\", \"steps\": {\"compile\": {\"type\": \"worker\", \"topic\": \"build\"}}}

  interlock workflow create --file build.json";

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Save a workflow, or a new version of it, and print its id
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// JSON file; `-` reads standard input
        #[arg(long, short, value_name = "FILE")]
        file: String,
    },
    /// List workflows, newest first
    List(ListFlags),
    /// Print the current version of a workflow as JSON
    Get(IdArgument),
    /// Reject starts of a workflow, or let them wait, until it is resumed
    Pause(PauseFlags),
    /// Resume a paused workflow
    Resume(IdArgument),
    /// Delete a workflow; its runs continue
    Delete(IdArgument),
}

#[derive(Debug, Args)]
pub(crate) struct PauseFlags {
    /// Workflow id
    id: String,
    /// Reason, shown to those who wait
    #[arg(long)]
    reason: Option<String>,
    /// Let starts wait instead of rejecting them
    #[arg(long)]
    queue: bool,
}

pub(super) async fn run(command: WorkflowCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        WorkflowCommand::Create { file } => {
            let created = client.create_workflow(&input::json_file(&file)?).await?;
            output.result(&created, |created| created.id.to_string())
        }
        WorkflowCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.workflows(&page).await).await
        }
        WorkflowCommand::Get(IdArgument { id }) => output.result(&client.workflow(&id).await?, pretty),
        WorkflowCommand::Pause(PauseFlags { id, reason, queue }) => {
            let on_full = Some(if queue { PausedStarts::Queue } else { PausedStarts::Reject });
            let request = PauseWorkflowRequest { reason, on_full };
            output.result(&client.pause_workflow(&id, &request).await?, |paused| {
                let what = if queue { "wait" } else { "are rejected" };
                format!("workflow {} paused: its starts {what} (limit {})", paused.workflow, paused.limit)
            })
        }
        WorkflowCommand::Resume(IdArgument { id }) => output
            .result(&client.resume_workflow(&id).await?, |resumed| {
                format!("workflow {} resumed", resumed.workflow)
            }),
        WorkflowCommand::Delete(IdArgument { id }) => {
            client.delete_workflow(&id).await?;
            output.done(&json!({"id": id, "deleted": true}), &format!("workflow {id} deleted"))
        }
    }
}

const COLUMNS: [Column<WorkflowView>; 5] = [
    ("ID", |workflow| workflow.id.to_string()),
    ("VERSION", |workflow| workflow.version.to_string()),
    ("STEPS", |workflow| workflow.steps.len().to_string()),
    ("CREATED", |workflow| workflow.created_at.to_string()),
    ("NAME", |workflow| workflow.name.clone()),
];
