//! Deletes what an arm created in a store that outlives the lab.

use std::time::Duration;

use interlock_api::client::{Client, Error, Result};
use interlock_api::runs::RunQuery;
use interlock_api::{Code, PageQuery};
use tokio::task::JoinSet;

use super::load::{WORKFLOW, limit_runs};

/// How long the cleanup of one tenant may take. Runs that remain time out by themselves.
const LIMIT: Duration = Duration::from_secs(10);

const PAGE_SIZE: u32 = 100;

/// Deletes everything of the tenant. Returns what remains and why, if anything does.
pub(super) async fn delete_tenant(client: &Client, tenant: &str) -> Option<String> {
    let cleanup = async {
        // The workflow goes first: a start that was cut off may still arrive, and must not create a run.
        ignore_missing(client.delete_workflow(WORKFLOW).await)?;
        delete_runs(client).await?;
        limit_runs(client, tenant, None).await
    };
    let reason = match tokio::time::timeout(LIMIT, cleanup).await {
        Ok(result) => result.err()?.to_string(),
        Err(_) => format!("no success within {} s", LIMIT.as_secs()),
    };
    Some(format!("the data of tenant {tenant}: {reason}"))
}

async fn delete_runs(client: &Client) -> Result<()> {
    loop {
        let page = PageQuery { limit: Some(PAGE_SIZE), cursor: None };
        let query = RunQuery { page, ..RunQuery::default() };
        let page = client.runs(&query).await?;
        if page.items.is_empty() {
            return Ok(());
        }
        let mut tasks = JoinSet::new();
        for run in page.items {
            let client = client.clone();
            tasks.spawn(async move { client.delete_run(&run.id.to_string()).await });
        }
        while let Some(result) = tasks.join_next().await {
            ignore_missing(result.expect("a deletion does not panic"))?;
        }
    }
}

fn ignore_missing(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Problem(problem)) if problem.code == Code::NotFound => Ok(()),
        other => other,
    }
}
