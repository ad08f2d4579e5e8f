//! How documents are written for the scripts, which never look into them.

use interlock_model::approval::Approval;
use interlock_model::dispatch_policy::HeldJob;
use interlock_model::job::{JobOutcome, NewJob};
use interlock_model::run::RunStatus;
use interlock_model::step::StepRun;
use interlock_model::{JobId, StepKey, Timestamp, queue};
use rand::RngExt;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::reply::Unreadable;

/// Times that stand for the store's in a document, in milliseconds: far in the future, and all with as many digits.
const TIME_MARKS: std::ops::Range<u64> = 100_000_000_000_000..200_000_000_000_000;

/// More than enough: that a mark stands in a document by chance is as likely as that a random id does.
const TIME_ATTEMPTS: usize = 8;

pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("what is kept is plain data with text keys")
}

/// A document with one time that only the store knows: its text before and after that time.
pub(crate) fn around_time<T: Serialize>(document: impl Fn(Timestamp) -> T) -> Arguments {
    let attempts = std::iter::repeat_with(|| {
        // The time is found by its value, wherever it stands. Other digits that equal it by chance differ from the next
        // mark.
        let time = Timestamp::from_millis(rand::rng().random_range(TIME_MARKS));
        let (text, mark) = (json(&document(time)), time.as_millis().to_string());
        let mut parts = text.split(&mark);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(before), Some(after), None) => {
                Some(Arguments::default().with("before", before).with("after", after))
            }
            _ => None,
        }
    });
    attempts.take(TIME_ATTEMPTS).flatten().next().expect("the document has the time once")
}

/// What became of a job, for its run's inbox, as it follows the time: see `lua/shared/inbox.lua`.
pub(crate) fn outcome(job: &JobId, outcome: &JobOutcome) -> String {
    format!(r#","job":{},"outcome":{}}}}}"#, json(job), json(outcome))
}

/// An operator's request for another attempt, for its run's inbox, up to the letter: the script puts the one that it has.
pub(crate) fn retry_without_letter(by: &str) -> String {
    format!(r#"{{"retry":{{"by":{},"letter":"#, json(by))
}

pub(crate) fn steps<'a>(steps: impl Iterator<Item = &'a (StepKey, StepRun)>) -> Vec<Arguments> {
    steps.map(|(key, step)| Arguments::default().with("key", key).with("document", json(step))).collect()
}

pub(crate) fn jobs(jobs: &[NewJob]) -> Vec<Arguments> {
    jobs.iter().map(job).collect()
}

fn job(job: &NewJob) -> Arguments {
    let kind = job.kind();
    Arguments::default()
        .with("job", &job.id)
        .with("topic", &job.topic)
        .with("deadline_at", job.deadline_at)
        .with("kind", Some(kind.as_str()).filter(|kind| !kind.is_empty()))
        .with("moved", queue::moved(job.meta.priority))
        .with("document", json(job))
}

pub(crate) fn held(held: &[HeldJob]) -> Vec<Arguments> {
    held.iter().map(|held| job(&held.job).with("detail", &held.detail)).collect()
}

pub(crate) fn approvals(approvals: &[Approval]) -> Vec<Arguments> {
    approvals.iter().map(approval).collect()
}

pub(crate) fn approval(approval: &Approval) -> Arguments {
    Arguments::default().with("job", &approval.job).with("document", json(approval))
}

pub(crate) fn run_status(name: &str) -> Result<RunStatus, Unreadable> {
    RunStatus::named(name).ok_or_else(|| Unreadable(format!("{name} is no run status")))
}

#[cfg(test)]
mod tests {
    use interlock_model::RunId;
    use interlock_model::dead_letter::DeadLetter;
    use interlock_model::run::InboxEvent;

    use super::*;

    fn job_id() -> JobId {
        let run = RunId::new(Timestamp::from_millis(1_794_700_800_000), [7; 10]);
        format!("{run}:build@1").parse().unwrap()
    }

    /// As `lua/shared/inbox.lua` puts the time before it.
    fn event(text: &str) -> InboxEvent {
        serde_json::from_str(&format!(r#"{{"job":{{"at":5{text}"#)).unwrap()
    }

    #[test]
    fn an_outcome_is_an_event_of_the_inbox() {
        let (at, job) = (Timestamp::from_millis(5), job_id());
        let lost = InboxEvent::Job { at, job: job.clone(), outcome: JobOutcome::Lost };
        assert_eq!(event(&outcome(&job, &JobOutcome::Lost)), lost);
        // As `lua/shared/losses.lua` writes it.
        assert_eq!(event(&format!(r#","job":"{job}","outcome":"lost"}}}}"#)), lost);
        let denied = JobOutcome::Denied { reason: "\"quoted\"".to_owned() };
        assert_eq!(event(&outcome(&job, &denied)), InboxEvent::Job { at, job, outcome: denied });
    }

    #[test]
    fn a_request_for_a_retry_ends_with_the_letter() {
        let letter = r#"{"job":"x"}"#;
        let text = format!("{}{letter}}}}}", retry_without_letter("ops"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["retry"]["letter"], serde_json::from_str::<serde_json::Value>(letter).unwrap());
        assert!(serde_json::from_str::<DeadLetter>(letter).is_err(), "any document stands there");
    }
}
