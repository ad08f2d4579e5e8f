//! How documents are written for the scripts, which never look into them.

use std::sync::LazyLock;

use interlock_model::approval::Approval;
use interlock_model::budget::{Amount, JobUsage};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::dispatch_policy::{HeldJob, HoldReason};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, JobOutcome, NewJob};
use interlock_model::run::{Head, RunStatus};
use interlock_model::step::StepRun;
use interlock_model::{BudgetName, JobId, StepKey, Timestamp, Topic, queue};
use rand::RngExt;
use serde::Serialize;

use crate::script::Arguments;
use crate::texts::{Document, LargeTexts, is_large};

/// Times that stand for the store's in a document, in milliseconds: far in the future, and all with as many digits.
const TIME_MARKS: std::ops::Range<u64> = 100_000_000_000_000..200_000_000_000_000;

/// More than enough: that a mark stands in a document by chance is as likely as that a random id does.
const TIME_ATTEMPTS: usize = 8;

pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("what is kept is plain data with text keys")
}

/// A document with one time that only the store knows: its text before and after that time.
#[derive(Serialize)]
pub(crate) struct AroundTime {
    before: String,
    after: String,
}

/// As long as the longest time that a script writes.
const ROOM_FOR_TIME: &str = "               ";

impl AroundTime {
    fn bytes(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// One text, and where in it a time of up to 15 digits replaces as many spaces.
    fn with_room_for_time(self) -> (String, usize) {
        let Self { before, after } = self;
        let time_at = before.len();
        (before + ROOM_FOR_TIME + &after, time_at)
    }
}

pub(crate) fn around_time<T: Serialize>(document: impl Fn(Timestamp) -> T) -> AroundTime {
    /// The first mark to try: to draw one for each document would cost more than to write it.
    static MARK: LazyLock<u64> = LazyLock::new(random_mark);
    // The time is found by its value, wherever it stands. Other digits that equal it by chance differ from the next mark.
    let mut marks = std::iter::once(*MARK).chain(std::iter::repeat_with(random_mark)).take(TIME_ATTEMPTS);
    marks
        .find_map(|mark| split_at(json(&document(Timestamp::from_millis(mark))), mark))
        .expect("one time only")
}

fn random_mark() -> u64 {
    rand::rng().random_range(TIME_MARKS)
}

/// The text before and after the mark, unless it stands there more than once.
fn split_at(mut text: String, mark: u64) -> Option<AroundTime> {
    let mark = mark.to_string();
    let (before, after) = text.split_once(&mark)?;
    if after.contains(&mark) {
        return None;
    }
    let (after, length) = (after.to_owned(), before.len());
    text.truncate(length);
    Some(AroundTime { before: text, after })
}

/// A document as a text for Lua's `string.format`, with these times to be filled in.
fn format_of(document: &impl Serialize, times: &[Timestamp]) -> String {
    let text = json(document).replace('%', "%%");
    times.iter().fold(text, |text, time| text.replace(&time.as_millis().to_string(), "%.0f"))
}

/// Times that stand for others, and for nothing else in a document that is known.
fn time_marks() -> [Timestamp; 2] {
    [111_111_111_111_111, 222_222_222_222_222].map(Timestamp::from_millis)
}

/// The head of a run that waits for slots: with the time now, and twice until when it waits.
pub(crate) fn queued_head_format() -> String {
    let [now, until] = time_marks();
    format_of(&Head::queued(now, until), &[now, until])
}

/// The event that such a run begins with: with the time now.
pub(crate) fn queued_event_format() -> String {
    let [now, _] = time_marks();
    format_of(&Event::new(now, EventKind::RunStatus).with_status(RunStatus::Queued.name()), &[now])
}

/// The event that a run begins with which waits for newer starts: with the time now.
pub(crate) fn debounced_event_format() -> String {
    let [now, _] = time_marks();
    format_of(&Event::debounced(now), &[now])
}

/// The event of a run that waits for newer starts no more: with the time now, and the number of its starts.
pub(crate) fn quiet_event_format() -> String {
    let [now, starts] = time_marks();
    format_of(&Event::quiet_ended(now, starts.as_millis()), &[now, starts])
}

/// An operator's request for another attempt, for its run's inbox, up to the letter: the script puts the one that it has.
pub(crate) fn retry_without_letter(by: &str) -> String {
    format!(r#"{{"retry":{{"by":{},"letter":"#, json(by))
}

/// The document of a start, and in a large one the place of its time.
pub(crate) fn with_start(arguments: Arguments, document: AroundTime, texts: &mut LargeTexts) -> Arguments {
    if !is_large(document.bytes()) {
        return arguments.with("document", document);
    }
    let (document, time_at) = document.with_room_for_time();
    arguments.with("time_at", time_at).with("document", texts.large(document))
}

/// A document under its key.
#[derive(Serialize)]
pub(crate) struct Row<'a, K> {
    key: &'a K,
    document: Document,
}

pub(crate) fn steps<'a>(
    steps: impl IntoIterator<Item = &'a (StepKey, StepRun)>,
    texts: &mut LargeTexts,
) -> Vec<Row<'a, StepKey>> {
    steps.into_iter().map(|(key, step)| Row { key, document: texts.document(json(step)) }).collect()
}

pub(crate) fn approval(approval: &Approval) -> Row<'_, JobId> {
    Row { key: &approval.job, document: Document::Text(json(approval)) }
}

pub(crate) fn approvals(approvals: &[Approval]) -> Vec<Row<'_, JobId>> {
    approvals.iter().map(approval).collect()
}

pub(crate) fn dead_letters(letters: &[DeadLetter]) -> Vec<Row<'_, JobId>> {
    letters.iter().map(|letter| Row { key: &letter.job, document: Document::Text(json(letter)) }).collect()
}

pub(crate) fn texts(documents: &[impl Serialize]) -> Vec<String> {
    documents.iter().map(json).collect()
}

/// What a job came to: beside the document its cause and its fingerprint, which scripts compare, and the usage, which they
/// count.
#[derive(Serialize)]
pub(crate) struct Outcome<'a> {
    cause: EndCause,
    fingerprint: Option<Fingerprint>,
    usage: Option<&'a JobUsage>,
    document: Document,
}

pub(crate) fn outcome<'a>(outcome: &'a JobOutcome, texts: &mut LargeTexts) -> Outcome<'a> {
    let usage = outcome.usage().filter(|usage| !usage.is_empty());
    let document = texts.document(json(outcome));
    Outcome { cause: outcome.cause(), fingerprint: outcome.fingerprint(), usage, document }
}

/// A new job, with what scripts decide by beside its document.
#[derive(Serialize)]
pub(crate) struct JobRow<'a> {
    job: &'a JobId,
    topic: &'a Topic,
    deadline_at: Option<Timestamp>,
    timeout: Option<u64>,
    queue_until: Option<Timestamp>,
    kind: Option<String>,
    moved: i64,
    /// What it reserves from.
    budget: Option<&'a BudgetName>,
    reserve: Option<Amount>,
    document: Document,
    /// Why it is held.
    reason: Option<HoldReason>,
    detail: Option<&'a str>,
}

pub(crate) fn jobs<'a>(jobs: &'a [NewJob], texts: &mut LargeTexts) -> Vec<JobRow<'a>> {
    jobs.iter().map(|new| job(new, texts)).collect()
}

pub(crate) fn held<'a>(held: &'a [HeldJob], texts: &mut LargeTexts) -> Vec<JobRow<'a>> {
    let row = |held: &'a HeldJob| {
        let (reason, detail) = (Some(held.reason), Some(held.detail.as_str()));
        JobRow { reason, detail, ..job(&held.job, texts) }
    };
    held.iter().map(row).collect()
}

fn job<'a>(job: &'a NewJob, texts: &mut LargeTexts) -> JobRow<'a> {
    JobRow {
        job: &job.id,
        topic: &job.topic,
        deadline_at: job.deadline_at,
        timeout: job.timeout.map(interlock_model::time::millis),
        queue_until: job.queue_until,
        kind: Some(job.kind().as_str().to_owned()).filter(|kind| !kind.is_empty()),
        moved: queue::moved(job.meta.priority),
        budget: job.budget.as_ref().map(|budget| &budget.name),
        reserve: job.budget.as_ref().map(|budget| budget.reserve),
        document: texts.document(json(job)),
        reason: None,
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use interlock_model::RunId;
    use interlock_model::child::ChildOutcome;
    use interlock_model::job::JobOutcome;
    use interlock_model::run::InboxEvent;

    use super::*;

    fn job_id() -> JobId {
        let run = RunId::new(Timestamp::from_millis(1_794_700_800_000), [7; 10]);
        format!("{run}:build@1").parse().unwrap()
    }

    #[test]
    fn an_outcome_is_an_event_of_the_inbox() {
        let (at, job) = (Timestamp::from_millis(5), job_id());
        for outcome in [JobOutcome::Lost, JobOutcome::Denied { reason: "\"quoted\"".to_owned() }] {
            // As `lua/shared/inbox.lua` writes it.
            let event = format!(r#"{{"job":{{"at":5,"job":"{job}","outcome":{}}}}}"#, json(&outcome));
            let expected = InboxEvent::Job { at, job: job.clone(), outcome };
            assert_eq!(serde_json::from_str::<InboxEvent>(&event).unwrap(), expected);
        }
    }

    #[test]
    fn a_waiting_run_has_its_times_in_the_order_in_which_the_script_fills_them_in() {
        let mut head = queued_head_format();
        for time in ["5", "7", "7"] {
            head = head.replacen("%.0f", time, 1);
        }
        let (now, until) = (Timestamp::from_millis(5), Timestamp::from_millis(7));
        assert_eq!(serde_json::from_str::<Head>(&head).unwrap(), Head::queued(now, until));
        let event = queued_event_format().replace("%.0f", "5");
        let event: Event = serde_json::from_str(&event).unwrap();
        assert_eq!((event.at, event.status.as_deref()), (now, Some("queued")));
        let event = debounced_event_format().replace("%.0f", "5");
        assert_eq!(serde_json::from_str::<Event>(&event).unwrap(), Event::debounced(now));
        let event = quiet_event_format().replacen("%.0f", "5", 1).replacen("%.0f", "3", 1);
        assert_eq!(serde_json::from_str::<Event>(&event).unwrap(), Event::quiet_ended(now, 3));
    }

    #[test]
    fn a_run_that_gets_or_loses_its_place_finds_that_in_its_inbox() {
        let at = Timestamp::from_millis(5);
        // As `lua/shared/grants.lua` and `lua/shared/replacements.lua` write them.
        assert_eq!(json(&InboxEvent::Granted { at }), r#"{"granted":{"at":5}}"#);
        let by = job_id().run;
        let replaced = InboxEvent::Replaced { by, limit: "one".parse().unwrap() };
        assert_eq!(json(&replaced), format!(r#"{{"replaced":{{"by":"{by}","limit":"one"}}}}"#));
    }

    #[test]
    fn a_child_that_is_lost_or_given_up_is_an_event_of_the_inbox() {
        let (child, step) = (job_id().run, job_id().step);
        // As `lua/shared/child_rules.lua` writes them.
        let outcome =
            r#"{"refused":{"code":"child_failed","message":"the child was lost","retryable":true}}"#;
        let lost = format!(r#"{{"child":{{"step":"build","child":"{child}","outcome":{outcome}}}}}"#);
        assert_eq!(json(&InboxEvent::Child { step, child, outcome: ChildOutcome::lost() }), lost);
        let cancel = format!(r#"{{"cancel":{{"by":"its parent run {child}"}}}}"#);
        assert_eq!(json(&InboxEvent::cancel_by_parent(child)), cancel);
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
