//! Dead letters: work that the system gave up on, kept for an operator with the reason.

use serde::{Deserialize, Serialize};

use crate::job::JobOutcome;
use crate::{JobId, RunId, Timestamp, Topic};

/// A job, or a result of one, that is not retried automatically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub job: JobId,
    /// The job's topic, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    pub code: LetterCode,
    /// One sentence for people.
    pub reason: String,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub buried_at: Timestamp,
    /// The worker's result, if it is stored nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JobOutcome>,
}

crate::named_enum! {
    pub enum LetterCode {
        /// Too many dispatches in a row lost their worker.
        WorkerLost = "worker_lost",
        /// A worker's result could not be applied after the maximum number of deliveries.
        ResultUnhandled = "result_unhandled",
        /// Too many turns of the run in a row were abandoned.
        RunQuarantined = "run_quarantined",
    }
}

/// Selects dead letters. An absent field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    pub code: Option<LetterCode>,
    pub topic: Option<Topic>,
    pub run: Option<RunId>,
    /// Only letters created before this time.
    pub before: Option<Timestamp>,
}

impl LetterFilter {
    pub fn is_meant(&self, letter: &DeadLetter) -> bool {
        self.code.is_none_or(|code| code == letter.code)
            && self.topic.as_ref().is_none_or(|topic| letter.topic.as_ref() == Some(topic))
            && self.run.is_none_or(|run| run == letter.job.run)
            && self.before.is_none_or(|before| letter.buried_at < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_only_when_every_field_matches() {
        let run = RunId::new(Timestamp::from_millis(1), [1; 10]);
        let letter = DeadLetter {
            job: format!("{run}:build@10").parse().unwrap(),
            topic: Some("build".parse().unwrap()),
            code: LetterCode::WorkerLost,
            reason: String::new(),
            attempts: 10,
            last_error: None,
            buried_at: Timestamp::from_millis(1_000),
            result: None,
        };
        let all = LetterFilter::default();
        let fitting = LetterFilter {
            code: Some(LetterCode::WorkerLost),
            topic: Some("build".parse().unwrap()),
            run: Some(run),
            before: Some(Timestamp::from_millis(1_001)),
        };
        assert!(all.is_meant(&letter) && fitting.is_meant(&letter));
        let other_run = RunId::new(Timestamp::from_millis(1), [2; 10]);
        for other in [
            LetterFilter { code: Some(LetterCode::ResultUnhandled), ..fitting.clone() },
            LetterFilter { topic: Some("test".parse().unwrap()), ..fitting.clone() },
            LetterFilter { run: Some(other_run), ..fitting.clone() },
            LetterFilter { before: Some(Timestamp::from_millis(1_000)), ..fitting.clone() },
        ] {
            assert!(!other.is_meant(&letter), "{other:?}");
        }
        assert!(!fitting.is_meant(&DeadLetter { topic: None, ..letter }), "an unknown topic does not match");
    }
}
