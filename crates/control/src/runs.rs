//! Ending runs, and taking over from them.

use std::collections::BTreeSet;

use interlock_backend::StoreError;
use interlock_backend::runs::CancelRequest;
use interlock_model::run::Run;
use interlock_model::step::{StepRun, StepStatus};
use interlock_model::workflow::Workflow;
use interlock_model::{RunId, StepId, StepKey, TenantId};
use tokio::time::{Instant, timeout_at};

use crate::service::Control;
use crate::wakeups::Signal;

impl Control {
    /// Asks the run to end and waits until it has, for a while: whoever holds it ends it.
    pub async fn cancel_run(&self, tenant: &TenantId, run: RunId, by: &str) -> Result<(), StoreError> {
        let changed = self.wakeups.waiter(Signal::RunChanged(run));
        if self.store.request_cancel(tenant, run, by).await? == CancelRequest::AlreadyEnded {
            return Ok(());
        }
        self.drive(tenant, run).await?;
        let deadline = Instant::now() + self.settings.cancel_wait;
        while Instant::now() < deadline {
            let heard = changed.notified();
            let live = self.store.run(tenant, run).await?.is_some_and(|run| !run.head.status.is_final());
            if !live {
                break;
            }
            let look_again = deadline.min(Instant::now() + self.settings.poll);
            let _ = timeout_at(look_again, heard).await;
        }
        Ok(())
    }

    /// Removes the run with everything of it but its idempotency key.
    pub async fn delete_run(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        let jobs = self.store.delete_run(tenant, run).await?;
        if let Some(mailbox) = &self.mailbox
            && let Err(error) = mailbox.forget(run, &jobs).await
        {
            // The run is gone, which is what was asked for; what is left in the mailbox nobody can find any more.
            tracing::warn!(%tenant, %run, %error, "what the run left in the mailbox was not removed");
        }
        self.wake(interlock_backend::Wake::RunChanged { run });
        Ok(())
    }
}

/// What a rerun from `step` takes over: everything that the step depends on, if all of it went well.
pub(crate) fn steps_before(
    workflow: &Workflow,
    source: &Run,
    step: &StepId,
) -> Result<Vec<(StepKey, StepRun)>, String> {
    let mut copied = Vec::new();
    for before in dependencies(workflow, step) {
        let key = StepKey::whole(&before);
        match source.steps.get(&key) {
            Some(found) if matches!(found.status, StepStatus::Succeeded | StepStatus::Skipped) => {
                copied.push((key, StepRun { fan_out: None, ..found.clone() }));
            }
            _ => {
                return Err(format!(
                    "step {step} depends on {before}, which is {} in run {}; rerun from there or from the beginning",
                    source.step_status(&before).name(),
                    source.start.run,
                ));
            }
        }
    }
    Ok(copied)
}

fn dependencies(workflow: &Workflow, step: &StepId) -> BTreeSet<StepId> {
    let mut found = BTreeSet::new();
    let mut open = vec![step.clone()];
    while let Some(next) = open.pop() {
        let Some(definition) = workflow.steps.get(&next) else { continue };
        for before in &definition.depends_on {
            if found.insert(before.clone()) {
                open.push(before.clone());
            }
        }
    }
    found
}
