//! The first turn of a run, computed before its admission.

use super::advance::{Advance, Effects, Illegal, TurnContext, advance};
use super::{Head, Run};
use crate::Timestamp;
use crate::admission::{FirstTurn, RunRequest, StartPlan};
use crate::child::ChildEffects;
use crate::event::WaitEffects;
use crate::limit::RunBounds;
use crate::step::ErrorCode;
use crate::workflow::Workflow;

/// Maximum number of extra rows in an admission. The engine runs a larger first turn, so that one tenant's fan-out does
/// not delay another tenant's start.
const ROWS_MAX: usize = 64;

impl FirstTurn {
    /// The first turn of the requested run, if it is small enough to be part of the admission.
    pub fn of(
        workflow: &Workflow,
        request: &RunRequest,
        plan: &StartPlan,
        now: Timestamp,
        wall_lead: i64,
    ) -> Result<Option<Self>, Illegal> {
        // The bounds of the tenant are known to the store alone. What the tightest allow, they all allow.
        let context = TurnContext { wall_lead, bounds: RunBounds::TIGHTEST, ..TurnContext::at(now) };
        let steps = plan.copied_steps.iter().cloned().collect();
        let run = Run { start: request.start(plan.workflow_version, now), head: Head::admitted(now), steps };
        let Advance { run, changed, effects, events, continues } = advance(workflow, run, &[], &context)?;
        let Effects { dispatched, approvals_opened, revoked, approvals_withdrawn, buried, children, waits } =
            effects;
        let rows = changed.len() + dispatched.len() + approvals_opened.len() + events.len();
        // A first turn has nothing to take back. Children are started by the engine, and it writes who waits for a key.
        let takes_back = !revoked.is_empty() || !approvals_withdrawn.is_empty() || !buried.is_empty();
        let has_children = children != ChildEffects::default();
        let waits_for_keys = waits != WaitEffects::default();
        let mut errors = run.steps.values().filter_map(|step| step.error.as_ref()).chain(&run.head.error);
        let is_large = errors.any(|error| error.code == ErrorCode::RunTooLarge);
        if rows > ROWS_MAX || takes_back || has_children || waits_for_keys || is_large || continues {
            return Ok(None);
        }
        let steps = run.steps.into_iter().collect();
        Ok(Some(Self { head: run.head, steps, events, dispatched, held: Vec::new(), approvals_opened }))
    }
}
