//! `interlock workflow`: save, show and delete workflows.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::workflows::WorkflowView;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::Result;
use crate::input;
use crate::output::table;

const CREATE_EXAMPLES: &str = "\
Example, with build.json:
  {\"id\": \"build\", \"name\": \"Build\", \"steps\": {\"compile\": {\"type\": \"worker\", \"topic\": \"build\"}}}

  interlock workflow create --file build.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// Save a document as the next version of its workflow, and print the id
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// A JSON file; `-` for standard input
        #[arg(long, short, value_name = "FILE")]
        file: String,
    },
    /// The workflows, newest first
    List(Listing),
    /// The current version, as JSON
    Get { id: String },
    /// Refuse new starts; runs that have begun go on
    Delete { id: String },
}

pub(super) async fn run(workflow: Workflow, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match workflow {
        Workflow::Create { file } => {
            let document = input::json_file(&file)?;
            let created = client.create_workflow_as_written(&document).await?;
            output.result(&created, |created| created.id.to_string())
        }
        Workflow::List(listing) => {
            let page = pages::collect(listing, async |query| client.workflows(&query).await).await?;
            output.result(&page, overview)
        }
        Workflow::Get { id } => {
            let view = client.workflow(&id).await?;
            output.result(&view, |view| serde_json::to_string_pretty(view).expect("wire types are JSON"))
        }
        Workflow::Delete { id } => {
            client.delete_workflow(&id).await?;
            output.done(&json!({"id": id, "deleted": true}), &format!("workflow {id} is deleted"))
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
