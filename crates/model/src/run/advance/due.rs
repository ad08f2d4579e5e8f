//! When something happens to a step by itself.

use std::time::Duration;

use super::Machine;
use crate::step::StepRun;
use crate::workflow::{Delay, StepKind};
use crate::{StepKey, Timestamp};

/// While the wall clock is behind, it may be set right at any moment, even while no process runs: a step whose time has
/// come by the store's clock and not by the wall clock is looked at this often.
const LOOK_EVERY: Duration = Duration::from_mins(1);

impl Machine<'_> {
    /// When the retry, delay or timeout of the step is due, by the store's clock.
    pub(super) fn due_at(&self, key: &StepKey, step: &StepRun) -> Option<Timestamp> {
        if step.status.is_settled() {
            return None;
        }
        let waits_for_date = || {
            let definition = self.definition(&key.step);
            definition.is_some_and(|step| matches!(step.kind, StepKind::Delay(Delay::Until(_))))
        };
        let wake_at = step.wake_at.map(|at| if waits_for_date() { self.by_wall_clock(at) } else { at });
        wake_at.into_iter().chain(step.deadline_at).chain(step.total_deadline_at).min()
    }

    /// When the wall clock, as it is set now, shows this time.
    fn by_wall_clock(&self, at: Timestamp) -> Timestamp {
        let lead = Duration::from_millis(self.context.wall_lead.unsigned_abs());
        if self.context.wall_lead >= 0 {
            return at - lead;
        }
        let due_at = at + lead;
        if due_at <= self.now { due_at } else { due_at.min(at.max(self.now + LOOK_EVERY)) }
    }
}
