//! How values are written for the scripts, which never look into them.

use interlock_model::approval::Approval;
use interlock_model::dispatch_policy::HeldJob;
use interlock_model::job::{JobOutcome, NewJob};
use interlock_model::run::{InboxEvent, RunStatus};
use interlock_model::{JobId, Timestamp, queue};
use serde::Serialize;

use crate::script::{Argument, Unreadable};

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is kept is plain data with text keys")
}

/// A document whose last field is a time, without that time: the script puts the store's.
pub(crate) fn without_last_time(value: &impl Serialize) -> String {
    let text = json(value);
    text.strip_suffix("0}").expect("the last field is the time zero").to_owned()
}

/// A document whose first field is `at`, without its beginning up to that time: the script puts the store's.
pub(crate) fn without_first_time(value: &impl Serialize) -> String {
    let text = json(value);
    text.strip_prefix("{\"at\":0").expect("the first field is the time zero").to_owned()
}

/// What became of a job, for its run's inbox, without its beginning up to the time: the script puts the store's.
pub(crate) fn outcome(job: &JobId, outcome: JobOutcome) -> String {
    let text = json(&InboxEvent::Job { at: Timestamp::ZERO, job: job.clone(), outcome });
    text.strip_prefix("{\"job\":{\"at\":0").expect("the first field is the time zero").to_owned()
}

/// An operator's wish for another attempt, for its run's inbox, up to the letter: the script puts the one that it has.
pub(crate) fn retry_without_letter(by: &str) -> String {
    format!(r#"{{"retry":{{"by":{},"letter":"#, json(&by))
}

/// As `dispatch` of `lua/shared/jobs.lua` reads it.
pub(crate) fn put_job(put: &mut Vec<Vec<u8>>, job: &NewJob) {
    put.push(job.id.to_string().written());
    put.push(job.topic.as_str().written());
    put.push(job.deadline_at.map(Timestamp::as_millis).written());
    put.push(job.kind().as_str().written());
    put.push(queue::moved(job.meta.priority).written());
    put.push(json(job).written());
}

/// As `hold` of `lua/shared/jobs.lua` reads it.
pub(crate) fn put_held(put: &mut Vec<Vec<u8>>, held: &HeldJob) {
    put_job(put, &held.job);
    put.push(held.detail.as_str().written());
}

/// As `open_approval` of `lua/shared/jobs.lua` reads it.
pub(crate) fn put_approval(put: &mut Vec<Vec<u8>>, approval: &Approval) {
    put.push(approval.job.to_string().written());
    put.push(json(approval).written());
}

pub(crate) fn run_status(name: &str) -> Result<RunStatus, Unreadable> {
    RunStatus::named(name).ok_or_else(|| Unreadable(format!("{name} is no run status")))
}
