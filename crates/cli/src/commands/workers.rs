//! `interlock workers`: list and drain workers.

use clap::Subcommand;
use interlock_api::schema;
use interlock_api::workers::{DrainRequest, WorkerView};
use interlock_model::Topic;

use super::Session;
use crate::arguments::{IdArgument, ListFlags};
use crate::exit::Result;
use crate::output::{Column, pretty};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers, as they were last seen
    List(ListFlags),
    /// Print one worker as JSON
    Get(IdArgument),
    /// Stop giving a worker new jobs; it finishes those that it has
    Drain {
        #[command(flatten)]
        worker: IdArgument,
        /// Give the worker jobs again
        #[arg(long)]
        undo: bool,
    },
}

pub(super) async fn run(command: WorkersCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        WorkersCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.workers(&page).await).await
        }
        WorkersCommand::Drain { worker: IdArgument { id }, undo } => {
            let view = client.drain_worker(&id, &DrainRequest { draining: !undo }).await?;
            let state = if view.draining { "is draining" } else { "gets jobs again" };
            output.result(&view, |view| format!("worker {} {state}", view.worker_id))
        }
        WorkersCommand::Get(IdArgument { id }) => output.result(&client.worker(&id).await?, pretty),
    }
}

const COLUMNS: [Column<WorkerView>; 7] = [
    ("WORKER", |worker| worker.worker_id.to_string()),
    ("EDGE", |worker| schema::name(&worker.edge)),
    ("STATE", |worker| state(worker).to_owned()),
    ("JOBS", |worker| {
        let load = worker.active_jobs.zip(worker.max_parallel_jobs);
        load.map(|(jobs, max)| format!("{jobs}/{max}")).unwrap_or_default()
    }),
    ("TOPICS", |worker| worker.topics.iter().map(Topic::as_str).collect::<Vec<_>>().join(",")),
    ("CAPABILITIES", |worker| worker.capabilities.join(",")),
    ("LAST SEEN", |worker| worker.last_seen_at.to_string()),
];

fn state(worker: &WorkerView) -> &'static str {
    match (worker.online, worker.draining) {
        (false, _) => "offline",
        (true, true) => "draining",
        (true, false) => "online",
    }
}
