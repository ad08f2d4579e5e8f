//! Deletes what the drill created in the server.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::Result;
use interlock_api::locks::ReleaseRequest;
use interlock_model::Resource;

use super::runner::DrillRunner;

/// The time limit of each call. Without a response, the run times out and the lock expires.
const LIMIT: Duration = Duration::from_secs(5);

impl DrillRunner<'_> {
    /// Deletes everything and returns what remains.
    pub(super) async fn clean_up(&self) -> Vec<String> {
        let mut remaining = Vec::new();
        if self.backend.is_none() {
            return remaining;
        }
        let (client, name) = (self.client, &self.plan.name);
        remaining.extend(failure("lock", name, self.release_lock()).await);
        if let Some(run) = self.run.map(|run| run.to_string()) {
            remaining.extend(failure("run", &run, client.delete_run(&run)).await);
        }
        // Always: the response to its creation may have been lost.
        remaining.extend(failure("workflow", name, client.delete_workflow(name)).await);
        remaining
    }

    /// Releases the lock for all its holders. The server knows them: a participant may have been killed after it acquired
    /// the lock and before it answered.
    async fn release_lock(&self) -> Result<()> {
        let resource: Resource = self.plan.name.parse().expect("a valid resource");
        let holders = self.client.lock(resource.clone()).await?.view.holders;
        for token in holders.into_iter().filter_map(|holder| holder.token) {
            let request = ReleaseRequest { resource: resource.clone(), token };
            self.client.release_lock(&request).await?;
        }
        Ok(())
    }
}

/// Why a call failed. It did not if there is nothing left to delete, or the lock has another holder.
async fn failure(kind: &str, name: &str, call: impl Future<Output = Result<()>>) -> Option<String> {
    let reason = match tokio::time::timeout(LIMIT, call).await {
        Err(_) => "no response in time".to_owned(),
        Ok(Ok(())) => return None,
        Ok(Err(error)) if matches!(error.code(), Some(Code::StaleFence | Code::NotFound)) => return None,
        Ok(Err(error)) => error.to_string(),
    };
    Some(format!("the {kind} {name}: {reason}"))
}
