//! How a run begins, decided beforehand.

use super::advance::{Advance, Command, Illegal, advance};
use super::{Head, Run};
use crate::Timestamp;
use crate::admission::{FirstTurn, StartRun};
use crate::workflow::Workflow;

/// Rows that an admission may write beside its own. A larger first turn is left to the engine: one tenant's fan-out
/// must not make another tenant's start wait.
const ROWS_MAX: usize = 64;

impl FirstTurn {
    /// The first turn of the run that `start` asks for, if it is small enough to be part of an admission.
    pub fn of(workflow: &Workflow, start: &StartRun, now: Timestamp) -> Result<Option<Self>, Illegal> {
        let steps = start.copied_steps.iter().cloned().collect();
        let run = Run { start: start.asked(now), head: Head::admitted(now), steps };
        let Advance { run, changed, commands, events } = advance(workflow, run, &[], now)?;
        if changed.len() + commands.len() + events.len() > ROWS_MAX {
            return Ok(None);
        }
        let (mut dispatched, mut approvals_opened) = (Vec::new(), Vec::new());
        for command in commands {
            match command {
                Command::Dispatch(job) => dispatched.push(job),
                Command::OpenApproval(approval) => approvals_opened.push(approval),
                // There was nothing before this turn that it could take back.
                Command::Revoke(_) | Command::WithdrawApproval(_) | Command::BuryJob(_) => {
                    return Ok(None);
                }
            }
        }
        let steps = run.steps.into_iter().collect();
        Ok(Some(Self { head: run.head, steps, events, dispatched, held: Vec::new(), approvals_opened }))
    }
}
