//! The runs that wait for a limit.

use clap::Args;
use interlock_api::PageQuery;
use interlock_api::named_limits::{QueueQuery, QueuedRunView};

use super::super::Session;
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::{Column, or_dash};

#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// Name of the limit
    name: String,
    /// Group: the value of the limit's key
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    listing: ListFlags,
}

pub(super) async fn list(flags: QueueFlags, session: &Session) -> Result<()> {
    let QueueFlags { name, group, listing } = flags;
    let fetch = async |PageQuery { limit, cursor }: PageQuery| {
        let query = QueueQuery { group: group.clone(), limit, cursor };
        session.client.limit_queue(&name, &query).await
    };
    session.list(listing, &QUEUE, fetch).await
}

const QUEUE: [Column<QueuedRunView>; 5] = [
    ("POSITION", |run| or_dash(run.position.as_ref())),
    ("RUN", |run| run.run_id.to_string()),
    ("SINCE", |run| run.since.to_string()),
    ("PRIORITY", |run| run.priority.to_string()),
    ("FAIR GROUP", |run| run.fair_group.clone().unwrap_or_else(|| "-".to_owned())),
];
