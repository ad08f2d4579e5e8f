//! `interlock workflow`: create, check, draw, show and delete workflows.

use clap::{Args, Subcommand};
use interlock_api::workflows::{PauseWorkflowRequest, PausedStarts, WorkflowPauseView, WorkflowView};
use serde_json::json;

use super::workflow_file::{self, GraphFormat};
use super::{Session, done};
use crate::arguments::{IdArgument, ListFlags};
use crate::exit::{Exit, Result};
use crate::input::{self, WrittenDocument};
use crate::output::{Column, Output, pretty};

const CREATE_EXAMPLES: &str = "\
Example, with build.yaml (JSON works, too):
  id: build
  name: Build
  steps:
    compile: {type: worker, topic: build}

  interlock workflow create --file build.yaml";

const GRAPH_EXAMPLES: &str = "\
Examples:
  interlock workflow graph --file build.yaml                          # Mermaid, for Markdown
  interlock workflow graph build --format dot | dot -Tsvg > build.svg   # a saved workflow";

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Save a workflow, or a new version of it, and print its id
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        #[command(flatten)]
        file: FileFlag,
    },
    /// Check a workflow file without a server
    Validate {
        #[command(flatten)]
        file: FileFlag,
    },
    /// Draw a workflow, from a file without a server
    #[command(after_help = GRAPH_EXAMPLES)]
    Graph(GraphFlags),
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
pub(crate) struct FileFlag {
    /// JSON or YAML file; `-` reads standard input
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct GraphFlags {
    /// Id of a saved workflow
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    id: Option<String>,
    /// JSON or YAML file; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    file: Option<String>,
    /// Language of the drawing
    #[arg(long, value_enum, default_value_t)]
    format: GraphFormat,
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

pub(super) async fn run(
    command: WorkflowCommand,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Exit> {
    match command {
        WorkflowCommand::Validate { file } => workflow_file::validate(&file.name, output),
        WorkflowCommand::Graph(GraphFlags { id: None, file, format }) => {
            workflow_file::draw(&file.unwrap_or_default(), format, output).map(done)
        }
        WorkflowCommand::Graph(GraphFlags { id: Some(id), format, .. }) => {
            let saved = session()?.client.workflow(&id).await?;
            workflow_file::draw_saved(saved, format, output).map(done)
        }
        WorkflowCommand::Create { file } => {
            let WrittenDocument { format, bytes, .. } = input::document(&file.name)?;
            let created = session()?.client.save_workflow_text(format, bytes).await?;
            output.result(&created, |created| created.id.to_string()).map(done)
        }
        WorkflowCommand::List(listing) => {
            let session = session()?;
            let fetch = async |page| session.client.workflows(&page).await;
            session.list(listing, &COLUMNS, fetch).await.map(done)
        }
        WorkflowCommand::Get(IdArgument { id }) => {
            output.result(&session()?.client.workflow(&id).await?, pretty).map(done)
        }
        WorkflowCommand::Pause(PauseFlags { id, reason, queue }) => {
            let on_full = Some(if queue { PausedStarts::Queue } else { PausedStarts::Reject });
            let request = PauseWorkflowRequest { reason, on_full };
            let paused = session()?.client.pause_workflow(&id, &request).await?;
            let what = if queue { "wait" } else { "are rejected" };
            let describe = |paused: &WorkflowPauseView| {
                format!("workflow {} paused: its starts {what} (limit {})", paused.workflow, paused.limit)
            };
            output.result(&paused, describe).map(done)
        }
        WorkflowCommand::Resume(IdArgument { id }) => {
            let resumed = session()?.client.resume_workflow(&id).await?;
            output.result(&resumed, |resumed| format!("workflow {} resumed", resumed.workflow)).map(done)
        }
        WorkflowCommand::Delete(IdArgument { id }) => {
            session()?.client.delete_workflow(&id).await?;
            output.done(&json!({"id": id, "deleted": true}), &format!("workflow {id} deleted")).map(done)
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
