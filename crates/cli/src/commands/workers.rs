//! `interlock workers`: list and drain workers.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::workers::{DrainRequest, WorkerView};

use super::{Session, pages};
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::table;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers, as they were last seen
    List(ListFlags),
    /// Print one worker as JSON
    Get {
        /// Worker id
        id: String,
    },
    /// Give a worker no new jobs; it finishes those that it has
    Drain {
        /// Worker id
        id: String,
        /// Give the worker jobs again
        #[arg(long)]
        undo: bool,
    },
}

pub(super) async fn run(command: WorkersCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        WorkersCommand::List(listing) => {
            let page = pages::collect(listing, async |query| client.workers(&query).await).await?;
            output.result(&page, overview)
        }
        WorkersCommand::Drain { id, undo } => {
            let view = client.drain_worker(&id, DrainRequest { draining: !undo }).await?;
            let state = if view.draining { "is draining" } else { "gets jobs again" };
            output.result(&view, |view| format!("worker {} {state}", view.worker_id))
        }
        WorkersCommand::Get { id } => {
            let view = client.worker(&id).await?;
            output.result(&view, |view| serde_json::to_string_pretty(view).expect("wire types are JSON"))
        }
    }
}

fn overview(page: &Page<WorkerView>) -> String {
    let row = |worker: &WorkerView| {
        let topics: Vec<&str> = worker.topics.iter().map(interlock_model::Topic::as_str).collect();
        let state = match (worker.online, worker.draining) {
            (false, _) => "offline",
            (true, true) => "draining",
            (true, false) => "online",
        };
        let load = worker.active_jobs.zip(worker.max_parallel_jobs);
        [
            worker.worker_id.to_string(),
            interlock_api::schema::name(&worker.edge),
            state.to_owned(),
            load.map(|(jobs, max)| format!("{jobs}/{max}")).unwrap_or_default(),
            topics.join(","),
            worker.capabilities.join(","),
            worker.last_seen_at.to_string(),
        ]
    };
    table(
        ["WORKER", "EDGE", "STATE", "JOBS", "TOPICS", "CAPABILITIES", "LAST SEEN"],
        page.items.iter().map(row),
    )
}
