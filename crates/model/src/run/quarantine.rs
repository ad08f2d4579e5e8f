//! Runs that no instance advances, because the processes that tried did not survive it.

use serde::{Deserialize, Serialize};

use crate::dead_letter::{DeadLetter, LetterCode};
use crate::{JobId, RunId, StepId, StepKey, Timestamp};

/// Why a run is quarantined, for people.
pub const QUARANTINE_REASON: &str =
    "its turns were abandoned: each process that computed one died, panicked or ran out of time";

/// Abandoned turns in a row from which on a run is a suspect: it is tried alone. One happens to any run beside which a
/// process dies, and by an answer that is lost.
pub const SUSPECT_FROM: u32 = 2;

/// A run that was given up until a person retries, cancels or deletes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    pub since: Timestamp,
    /// Turns in a row that were abandoned.
    pub tries: u32,
}

impl Quarantine {
    /// The id of the run's dead letter. No dispatch has the attempt 0, so it is no job's.
    pub fn letter_id(run: RunId) -> JobId {
        let step: StepId = "run".parse().expect("it is a valid id");
        JobId { run, step: StepKey::whole(&step), attempt: 0 }
    }

    /// Whether the dead letter with this id is about the run and not about a job.
    pub fn is_letter_id(id: &JobId) -> bool {
        *id == Self::letter_id(id.run)
    }

    pub fn letter(self, run: RunId) -> DeadLetter {
        DeadLetter {
            job: Self::letter_id(run),
            topic: None,
            code: LetterCode::RunQuarantined,
            reason: QUARANTINE_REASON.to_owned(),
            attempts: self.tries,
            last_error: None,
            buried_at: self.since,
            result: None,
        }
    }
}
