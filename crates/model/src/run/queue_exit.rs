//! How a run left the queue of a limit.

use super::{Head, RunStatus};
use crate::step::ErrorCode;

crate::named_enum! {
    /// How a run left the queue of a limit.
    pub enum QueueExit {
        Granted = "granted",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        /// A newer run took its place.
        Superseded = "superseded",
    }
}

impl QueueExit {
    /// None: it did not wait, or still does.
    pub fn of(before: RunStatus, after: &Head) -> Option<Self> {
        if before != RunStatus::Queued || after.status == RunStatus::Queued {
            return None;
        }
        Some(match after.error.as_ref().map(|error| error.code) {
            Some(ErrorCode::QueueTimeout) => Self::TimedOut,
            Some(ErrorCode::Superseded) => Self::Superseded,
            _ if after.status == RunStatus::Cancelled => Self::Cancelled,
            _ => Self::Granted,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::step::StepError;

    use super::*;

    #[test]
    fn a_run_leaves_its_queue_once_and_by_one_way() {
        let head = |status, code: Option<ErrorCode>| {
            let error = code.map(|code| StepError { code, message: String::new(), step: None });
            Head { status, error, ..Head::default() }
        };
        let table = [
            (head(RunStatus::Queued, None), None),
            (head(RunStatus::Running, None), Some(QueueExit::Granted)),
            (head(RunStatus::TimedOut, Some(ErrorCode::QueueTimeout)), Some(QueueExit::TimedOut)),
            (head(RunStatus::Cancelled, Some(ErrorCode::Superseded)), Some(QueueExit::Superseded)),
            (head(RunStatus::Cancelled, Some(ErrorCode::Cancelled)), Some(QueueExit::Cancelled)),
        ];
        for (after, expected) in table {
            assert_eq!(QueueExit::of(RunStatus::Queued, &after), expected, "{after:?}");
            assert_eq!(QueueExit::of(RunStatus::Running, &after), None, "it did not wait");
        }
    }
}
