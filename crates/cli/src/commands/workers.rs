//! `interlock workers`: who works here.

use clap::Subcommand;
use interlock_api::Page;
use interlock_api::workers::WorkerView;

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
}

pub(super) async fn run(workers: Workers, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match workers {
        Workers::List(listing) => {
            let page = pages::collect(listing, async |query| client.workers(&query).await).await?;
            output.result(&page, overview)
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
        let presence = if worker.online { "online" } else { "away" };
        [
            worker.worker_id.to_string(),
            presence.to_owned(),
            topics.join(","),
            worker.first_seen_at.to_string(),
            worker.last_seen_at.to_string(),
        ]
    };
    table(["WORKER", "PRESENCE", "TOPICS", "FIRST SEEN", "LAST SEEN"], page.items.iter().map(row))
}
