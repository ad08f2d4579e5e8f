//! `interlock workflow`: create, show and delete workflows.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::workflows::WorkflowView;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::input;
use crate::output::table;

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
    Get {
        /// Workflow id
        id: String,
    },
    /// Delete a workflow; its runs continue
    Delete {
        /// Workflow id
        id: String,
    },
}

pub(super) async fn run(command: WorkflowCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        WorkflowCommand::Create { file } => {
            let document = input::json_file(&file)?;
            let created = client.create_workflow(&document).await?;
            output.result(&created, |created| created.id.to_string())
        }
        WorkflowCommand::List(listing) => {
            let page = pages::collect(listing, async |query| client.workflows(&query).await).await?;
            output.result(&page, overview)
        }
        WorkflowCommand::Get { id } => {
            let view = client.workflow(&id).await?;
            output.result(&view, |view| serde_json::to_string_pretty(view).expect("wire types are JSON"))
        }
        WorkflowCommand::Delete { id } => {
            client.delete_workflow(&id).await?;
            output.done(&json!({"id": id, "deleted": true}), &format!("workflow {id} deleted"))
        }
    }
}

fn overview(page: &Page<WorkflowView>) -> String {
    let row = |view: &WorkflowView| {
        [
            view.id.to_string(),
            view.version.to_string(),
            view.steps.len().to_string(),
            view.created_at.to_string(),
            view.name.clone(),
        ]
    };
    table(["ID", "VERSION", "STEPS", "CREATED", "NAME"], page.items.iter().map(row))
}
