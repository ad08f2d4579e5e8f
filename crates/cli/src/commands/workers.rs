//! `interlock workers`: who works here.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::workers::{DrainRequest, WorkerView};

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::Result;
use crate::output::table;

#[derive(Debug, Subcommand)]
pub(crate) enum Workers {
    /// The workers, as they were last seen
    List(Listing),
    /// One worker, as JSON
    Get { id: String },
    /// Give a worker no new jobs; it keeps those that it has (`jobs list --state running`)
    Drain {
        id: String,
        /// Give it jobs again
        #[arg(long)]
        undo: bool,
    },
}

pub(super) async fn run(workers: Workers, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match workers {
        Workers::List(listing) => {
            let page = pages::collect(listing, async |query| client.workers(&query).await).await?;
            output.result(&page, overview)
        }
        Workers::Drain { id, undo } => {
            let view = client.drain_worker(&id, DrainRequest { draining: !undo }).await?;
            let word = if view.draining { "is draining" } else { "takes jobs again" };
            output.result(&view, |view| format!("{} {word}", view.worker_id))
        }
        Workers::Get { id } => {
            let view = client.worker(&id).await?;
            output.result(&view, |view| serde_json::to_string_pretty(view).expect("wire types are JSON"))
        }
    }
}

fn overview(page: &Page<WorkerView>) -> String {
    let row = |worker: &WorkerView| {
        let topics: Vec<&str> = worker.topics.iter().map(interlock_model::Topic::as_str).collect();
        let presence = match (worker.online, worker.draining) {
            (false, _) => "away",
            (true, true) => "draining",
            (true, false) => "online",
        };
        let load = worker.active_jobs.zip(worker.max_parallel_jobs);
        [
            worker.worker_id.to_string(),
            interlock_api::schema::name(&worker.edge),
            presence.to_owned(),
            load.map(|(jobs, max)| format!("{jobs}/{max}")).unwrap_or_default(),
            topics.join(","),
            worker.capabilities.join(","),
            worker.last_seen_at.to_string(),
        ]
    };
    table(
        ["WORKER", "EDGE", "PRESENCE", "JOBS", "TOPICS", "CAPABILITIES", "LAST SEEN"],
        page.items.iter().map(row),
    )
}
