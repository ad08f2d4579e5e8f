//! What the drill leaves in the server, and how it is removed.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::{Client, Result};
use interlock_api::locks::ReleaseRequest;
use interlock_model::{LockToken, Resource, RunId};

/// A server that does not answer is not waited for: run and lock end by themselves.
const LIMIT: Duration = Duration::from_secs(5);

/// Everything that has to be removed again.
#[derive(Debug, Default)]
pub(super) struct Traces {
    pub(super) workflow: Option<String>,
    pub(super) run: Option<RunId>,
    /// Every hold that was heard of; the last is removed first.
    pub(super) locks: Vec<(Resource, LockToken)>,
}

impl Traces {
    /// Removes all of it, and tells what is left.
    pub(super) async fn remove(self, client: &Client) -> Vec<String> {
        let mut left = Vec::new();
        for (resource, token) in self.locks.into_iter().rev() {
            let request = ReleaseRequest { resource, token };
            // A stale token is one that somebody else has followed, or nobody: there is nothing to give back.
            let end = bounded(client.release_lock(&request), &[Code::StaleFence, Code::NotFound]).await;
            note(&mut left, &format!("the lock {}", request.resource), end);
        }
        if let Some(run) = self.run {
            let end = bounded(client.delete_run(&run.to_string()), &[Code::NotFound]).await;
            note(&mut left, &format!("the run {run}"), end);
        }
        if let Some(workflow) = self.workflow {
            let end = bounded(client.delete_workflow(&workflow), &[Code::NotFound]).await;
            note(&mut left, &format!("the workflow {workflow}"), end);
        }
        left
    }
}

async fn bounded(call: impl Future<Output = Result<()>>, gone: &[Code]) -> std::result::Result<(), String> {
    match tokio::time::timeout(LIMIT, call).await {
        Err(_) => Err("no answer in time".to_owned()),
        Ok(Err(error)) if !error.code().is_some_and(|code| gone.contains(&code)) => Err(error.to_string()),
        Ok(_) => Ok(()),
    }
}

fn note(left: &mut Vec<String>, what: &str, end: std::result::Result<(), String>) {
    if let Err(why) = end {
        left.push(format!("{what}: {why}"));
    }
}
