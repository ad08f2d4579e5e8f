//! Deletes what the drill created in the server.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::{Client, Result};
use interlock_api::locks::ReleaseRequest;
use interlock_model::{LockToken, Resource, RunId};

/// The time limit of each call. Without a response, the run times out and the lock expires.
const LIMIT: Duration = Duration::from_secs(5);

/// Everything that the drill must delete.
#[derive(Debug, Default)]
pub(super) struct DrillCleanup {
    pub(super) workflow: Option<String>,
    pub(super) run: Option<RunId>,
    /// All leases that the participants reported, the latest last.
    pub(super) locks: Vec<(Resource, LockToken)>,
}

impl DrillCleanup {
    /// Deletes everything and returns what remains.
    pub(super) async fn run(self, client: &Client) -> Vec<String> {
        let mut remaining = Vec::new();
        for (resource, token) in self.locks.into_iter().rev() {
            let request = ReleaseRequest { resource, token };
            remaining.extend(failure("lock", &request.resource, client.release_lock(&request)).await);
        }
        if let Some(run) = self.run.map(|run| run.to_string()) {
            remaining.extend(failure("run", &run, client.delete_run(&run)).await);
        }
        if let Some(workflow) = self.workflow {
            remaining.extend(failure("workflow", &workflow, client.delete_workflow(&workflow)).await);
        }
        remaining
    }
}

/// Why a call failed. It did not if there is nothing left to delete, or the lock has another holder.
async fn failure(
    kind: &str,
    name: impl std::fmt::Display,
    call: impl Future<Output = Result<()>>,
) -> Option<String> {
    let reason = match tokio::time::timeout(LIMIT, call).await {
        Err(_) => "no response in time".to_owned(),
        Ok(Ok(())) => return None,
        Ok(Err(error)) if matches!(error.code(), Some(Code::StaleFence | Code::NotFound)) => return None,
        Ok(Err(error)) => error.to_string(),
    };
    Some(format!("the {kind} {name}: {reason}"))
}
