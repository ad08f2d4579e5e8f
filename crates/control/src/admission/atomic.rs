//! One step decides: the store looks at key, definition and cap and creates the run, and there is nothing to wait for.

use interlock_backend::{Effect, StoreError};
use interlock_model::admission::{Admission, FirstTurn, StartRun};
use interlock_model::workflow::Workflow;

use super::StartError;
use crate::service::Control;

impl Control {
    pub(super) async fn admit_atomically(
        &self,
        start: &mut StartRun,
        workflow: Option<&Workflow>,
    ) -> Result<Admission, StartError> {
        match self.store.refusal(start) {
            Some(refusal) => Ok(refusal),
            None => self.create(start, workflow).await,
        }
    }

    /// Asks the store, again where its answer was lost: with the same run id, asking twice starts once.
    pub(super) async fn create(
        &self,
        start: &mut StartRun,
        workflow: Option<&Workflow>,
    ) -> Result<Admission, StartError> {
        start.first_turn = match workflow {
            None => None,
            Some(workflow) => FirstTurn::of(workflow, start, self.clock.now())
                .map_err(|illegal| StartError::Store(StoreError::Conflict(illegal.to_string())))?,
        };
        if let Some(turn) = &mut start.first_turn {
            turn.held = self.hold_back(&start.tenant, &mut turn.dispatched);
        }
        let mut is_unknown = false;
        for _ in 0..=self.settings.admission_repeats_max {
            match self.store.admit(start).await {
                Ok(admission) => return Ok(admission),
                Err(StoreError::Unavailable { effect, .. }) => {
                    is_unknown |= effect == Effect::Unknown;
                    start.is_repeat = true;
                }
                Err(error) => return Err(StartError::Store(error)),
            }
        }
        let retry_after = self.retry_after(None);
        Err(if is_unknown {
            StartError::Unknown { retry_after }
        } else {
            StartError::NotDone { retry_after }
        })
    }
}
