//! What an arm leaves in a server that stays, and how it is removed.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::{Client, Error, Result};
use interlock_api::runs::RunQuery;
use tokio::task::JoinSet;

use super::load::{WORKFLOW, limit_runs};

/// A server that does not answer is not waited for: runs end by themselves.
const LIMIT: Duration = Duration::from_secs(10);

const RUNS_AT_ONCE: u32 = 100;

/// Removes all that the tenant has. Tells why not, if something is left.
pub(super) async fn remove(client: &Client, tenant: &str) -> Option<String> {
    let removal = async {
        // First what runs are started from: a start that was cut off may reach the server after this.
        gone(client.delete_workflow(WORKFLOW).await)?;
        delete_runs(client).await?;
        limit_runs(client, tenant, None).await
    };
    match tokio::time::timeout(LIMIT, removal).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("everything of the tenant {tenant}: {error}")),
        Err(_) => Some(format!("everything of the tenant {tenant}: it took too long")),
    }
}

async fn delete_runs(client: &Client) -> Result<()> {
    loop {
        let query = RunQuery { limit: Some(RUNS_AT_ONCE), ..RunQuery::default() };
        let page = client.runs(&query).await?;
        if page.items.is_empty() {
            return Ok(());
        }
        let mut tasks = JoinSet::new();
        for run in page.items {
            let client = client.clone();
            tasks.spawn(async move { client.delete_run(&run.id.to_string()).await });
        }
        while let Some(end) = tasks.join_next().await {
            gone(end.expect("a deletion does not panic"))?;
        }
    }
}

/// What is not there need not be removed.
fn gone(end: Result<()>) -> Result<()> {
    match end {
        Err(Error::Problem(problem)) if problem.code == Code::NotFound => Ok(()),
        other => other,
    }
}
