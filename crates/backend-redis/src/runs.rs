//! Runs: acquired, committed, ended.

use interlock_backend::deliveries::DeliveryOutcome;
use interlock_backend::runs::{AcquiredRun, ReadyRuns};
use interlock_backend::suspects::SuspectOutcome;
use interlock_backend::verbs::{
    AcquireReadyRuns, AcquireRun, AcquireSuspect, AddDeadLetter, Commit, DeleteRun, DeliverResult,
    ReleaseRun, RequestCancel, ResolveApproval, RetryDeadLetter,
};
use interlock_model::JobId;
use interlock_model::approval::ApprovalState;
use interlock_model::run::{Head, InboxEvent, QUARANTINE_REASON};
use interlock_model::time::millis;
use serde::Deserialize as _;

use crate::known::Known;
use crate::reply::{Unreadable, Value};
use crate::script::Arguments;
use crate::store::Scripted;
use crate::texts::{LargeText, LargeTexts};
use crate::{children, encode, events};

impl Scripted for AcquireReadyRuns {
    fn learn(&self, answer: &ReadyRuns, known: &Known) {
        for run in &answer.runs {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for AcquireRun {
    fn learn(&self, answer: &Option<AcquiredRun>, known: &Known) {
        if let Some(run) = answer {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for AcquireSuspect {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("holder", &self.holder)
            .with("lease", millis(self.lease))
            .with("tries_max", self.tries_max)
            .with("dead_letters_max", self.dead_letters_max)
            .with("reason", encode::json(&QUARANTINE_REASON))
            .packed()
    }

    fn learn(&self, answer: &SuspectOutcome, known: &Known) {
        if let SuspectOutcome::Acquired(suspect) = answer {
            known.saw_fence(suspect.run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for DeliverResult {
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        let mut texts = LargeTexts::default();
        let arguments = Arguments::default()
            .with("job", &self.job)
            .with("fence", self.fence)
            .with("edge", self.edge)
            .with("outcome", encode::outcome(&self.outcome, &mut texts))
            .with("holder", &self.holder)
            .with("lease", millis(self.lease));
        (arguments.packed(), texts.into_vec())
    }

    fn learn(&self, answer: &DeliveryOutcome, known: &Known) {
        if let DeliveryOutcome::Recorded(run) = answer {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for Commit {
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        let mut texts = LargeTexts::default();
        let head = Head { version: self.version + 1, fence: self.fence, ..self.head.clone() };
        let arguments = Arguments::default()
            .with("run", self.run)
            .with("fence", self.fence)
            .with("version", self.version)
            .with("head", texts.document(encode::json(&head)))
            .with("status", head.status)
            .with("due_at", head.due_at)
            .with("inbox_end", self.inbox_end)
            .with("steps", encode::steps(&self.steps, &mut texts))
            .with("events", encode::texts(&self.events))
            .with("dispatched", encode::jobs(&self.dispatched, &mut texts))
            .with("held", encode::held(&self.held, &mut texts))
            .with("revoked", &self.revoked)
            .with("approvals_opened", encode::approvals(&self.approvals_opened))
            .with("approvals_withdrawn", &self.approvals_withdrawn)
            .with("dead_letters", encode::dead_letters(&self.buried))
            .with("dead_letters_max", self.dead_letters_max)
            .with("continues", self.continues);
        let used = Some(head.used_events).filter(|used| !used.is_zero());
        let arguments = arguments
            .with("used_events", used.map(|used| used.count))
            .with("used_event_bytes", used.map(|used| used.bytes));
        let arguments = children::with_children(arguments, self.run, &self.children, &mut texts);
        (events::with_waits(arguments, self.run, &self.waits).packed(), texts.into_vec())
    }

    fn lease_in_doubt(&self, _: &str) -> Option<String> {
        Some(self.fence.to_string())
    }
}

impl Scripted for ReleaseRun {
    fn lease_in_doubt(&self, _: &str) -> Option<String> {
        Some(self.fence.to_string())
    }
}

impl Scripted for RequestCancel {
    fn arguments(&self) -> Vec<u8> {
        let event = InboxEvent::Cancel { by: self.by.clone() };
        Arguments::default().with("run", self.run).with("event", encode::json(&event)).packed()
    }
}

impl Scripted for DeleteRun {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("run", self.run)
            .with("cancel", children::cancel_by_parent(self.run))
            .with("deleted", children::deleted())
            .packed()
    }

    /// In the order of their bytes, without names that are not ours.
    fn read(&self, reply: Value<'_>) -> Result<Vec<JobId>, Unreadable> {
        let mut jobs = Vec::<String>::deserialize(reply)?;
        jobs.sort_unstable();
        Ok(jobs.iter().filter_map(|job| job.parse().ok()).collect())
    }
}

impl Scripted for ResolveApproval {
    fn arguments(&self) -> Vec<u8> {
        let event = InboxEvent::Approval { job: self.job.clone(), decision: self.decision.clone() };
        Arguments::default()
            .with("job", &self.job)
            .with("verdict", self.decision.verdict)
            .with("state", encode::json(&ApprovalState::Resolved(self.decision.clone())))
            .with("event", encode::json(&event))
            .packed()
    }
}

impl Scripted for AddDeadLetter {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("dead_letters", encode::dead_letters(std::slice::from_ref(&self.dead_letter)))
            .with("dead_letters_max", self.dead_letters_max)
            .packed()
    }
}

impl Scripted for RetryDeadLetter {
    fn arguments(&self) -> Vec<u8> {
        let event_start = encode::retry_without_letter(&self.by);
        Arguments::default().with("job", &self.job).with("event_start", event_start).packed()
    }
}
