//! Events: sent to runs, for steps that wait for them.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::events::{EventOutcome, KeyedEventOutcome};
use interlock_backend::verbs::{ReadRun, SendEvent, SendKeyedEvent};
use interlock_backend::{StoreError, Wake};
use interlock_model::event::{KEYED_KEPT, SentEvent};
use interlock_model::workflow::{StepKind, Workflow};
use interlock_model::{EventId, EventName, RunId, TenantId};

use crate::definitions::Definitions;
use crate::engine::Engine;
use crate::process::Process;

/// Sends events to runs.
pub struct Events {
    process: Arc<Process>,
    engine: Arc<Engine>,
    definitions: Arc<Definitions>,
}

/// Why an event was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendEventError {
    #[error(
        "no step of workflow {} version {} waits for event `{name}`{}; nothing was changed",
        workflow.id, workflow.version, instead(workflow)
    )]
    NotAwaited { name: EventName, workflow: Arc<Workflow> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Names that an error shows.
const NAMES_SHOWN: usize = 10;

fn awaited(workflow: &Workflow) -> impl Iterator<Item = &EventName> {
    workflow.steps.values().filter_map(|step| {
        let StepKind::WaitEvent(rule) = &step.kind else { return None };
        Some(&rule.name)
    })
}

fn instead(workflow: &Workflow) -> String {
    let mut names: Vec<&str> = awaited(workflow).map(EventName::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(NAMES_SHOWN);
    if names.is_empty() { String::new() } else { format!(": its steps wait for {}", names.join(", ")) }
}

impl Events {
    pub(crate) fn of(process: &Arc<Process>, engine: &Arc<Engine>, definitions: &Arc<Definitions>) -> Self {
        Self { process: process.clone(), engine: engine.clone(), definitions: definitions.clone() }
    }

    /// An id for an event that its sender did not name.
    pub fn new_id(&self) -> EventId {
        self.process.identity.event_id()
    }

    /// Sends an event to a run, and advances the run with it.
    pub async fn send(
        &self,
        tenant: &TenantId,
        run: RunId,
        event: SentEvent,
    ) -> Result<EventOutcome, SendEventError> {
        let read = ReadRun { tenant: tenant.clone(), run };
        let found = self.process.call(read).await?.ok_or_else(|| StoreError::not_found("run", run))?;
        let (id, version) = (&found.start.workflow, found.start.workflow_version);
        let pinned = self.definitions.version(tenant, id, version).await?;
        let workflow = pinned.ok_or_else(|| StoreError::not_found("workflow", id))?;
        if !awaited(&workflow).any(|name| *name == event.name) {
            return Err(SendEventError::NotAwaited { name: event.name, workflow });
        }
        let outcome = self.process.call(SendEvent { tenant: tenant.clone(), run, event }).await?;
        // The store has it: the next turn of the run takes it into account.
        if outcome == EventOutcome::Sent && self.engine.drive(tenant, run).await.is_err() {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        Ok(outcome)
    }

    /// Sends an event to every run of the tenant that waits for its key, or keeps it for the next that will.
    pub async fn send_to_key(
        &self,
        tenant: &TenantId,
        event: SentEvent,
    ) -> Result<KeyedEventOutcome, StoreError> {
        let outcome =
            self.process.call(SendKeyedEvent { tenant: tenant.clone(), event, kept_for: KEYED_KEPT }).await?;
        if let KeyedEventOutcome::Delivered { has_more, .. } = outcome {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            if has_more {
                // The reconcilers deliver the rest.
                self.process.due_in(Duration::ZERO);
            }
        }
        Ok(outcome)
    }
}
