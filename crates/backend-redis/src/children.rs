//! Children: what commits ask for, started or refused.

use interlock_backend::children::ChildSettlement;
use interlock_backend::verbs::SettleChildStart;
use interlock_model::RunId;
use interlock_model::child::{ChildEffects, ChildOutcome, ChildReport, NewChild};
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Head, InboxEvent};
use serde::Serialize;

use crate::encode;
use crate::script::Arguments;
use crate::store::Scripted;
use crate::texts::{Document, LargeText, LargeTexts, is_large};

/// A child that is to be started.
#[derive(Serialize)]
struct ChildRow {
    run: RunId,
    document: Document,
}

/// An event for the inbox of another run.
#[derive(Serialize)]
struct ReportRow {
    parent: RunId,
    /// Up to a large outcome, which stands apart.
    event: String,
    outcome: Option<Document>,
}

fn row(child: &NewChild, texts: &mut LargeTexts) -> ChildRow {
    ChildRow { run: child.run, document: texts.document(encode::json(child)) }
}

fn report(report: &ChildReport, texts: &mut LargeTexts) -> ReportRow {
    let (parent, event) = (report.parent, encode::json(&report.event));
    if !is_large(event.len()) {
        return ReportRow { parent, event, outcome: None };
    }
    // Names of steps and ids have no quotes: the first of these is not within a text.
    let mark = "\"outcome\":";
    let outcome_at = event.find(mark).expect("the outcome is the last field of the event") + mark.len();
    let outcome = texts.large(event[outcome_at..event.len() - "}}".len()].to_owned());
    ReportRow { parent, event: event[..outcome_at].to_owned(), outcome: Some(outcome) }
}

/// What a commit of `run` does about children; nothing of most.
pub(crate) fn with_children(
    arguments: Arguments,
    run: RunId,
    children: &ChildEffects,
    texts: &mut LargeTexts,
) -> Arguments {
    let ChildEffects { started, cancelled, report: reported } = children;
    let mut arguments = arguments;
    if !started.is_empty() {
        let rows: Vec<ChildRow> = started.iter().map(|child| row(child, texts)).collect();
        arguments = arguments.with("children_started", rows);
    }
    if !cancelled.is_empty() {
        arguments = arguments.with("children_cancelled", cancelled).with("cancel", cancel_by_parent(run));
    }
    arguments.with("report", reported.as_ref().map(|it| report(it, texts)))
}

pub(crate) fn cancel_by_parent(run: RunId) -> String {
    encode::json(&InboxEvent::cancel_by_parent(run))
}

/// The end of a child that is deleted, as a part of an event.
pub(crate) fn deleted() -> String {
    encode::json(&ChildOutcome::deleted())
}

pub(crate) fn claim_text(claim: &SlotClaim) -> String {
    format!("{}:{}", claim.limit, claim.group.escaped())
}

impl Scripted for SettleChildStart {
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        let mut texts = LargeTexts::default();
        let child = &self.child;
        let arguments = Arguments::default().with("run", child.run).with("parent", child.parent.run);
        let arguments = match &self.settlement {
            ChildSettlement::Refuse { code, message, retryable } => {
                let (code, message, retryable) = (*code, message.clone(), *retryable);
                let outcome = ChildOutcome::Refused { code, message, retryable };
                let report = ChildReport::about(&child.parent, child.run, outcome);
                arguments.with("refusal", encode::json(&report.event))
            }
            ChildSettlement::Start { workflow_version, limits_revision, claims } => {
                let claims: Vec<String> = claims.iter().map(claim_text).collect();
                let document = encode::around_time(|at| child.start(&self.tenant, *workflow_version, at));
                let admitted =
                    encode::around_time(|at| Event::new(at, EventKind::RunStatus).with_status("pending"));
                encode::with_start(arguments, document, &mut texts)
                    .with("parent_step", &child.parent.step)
                    .with("workflow", &child.workflow)
                    .with("workflow_version", workflow_version.to_string())
                    .with("limits_revision", limits_revision)
                    .with("claims", claims)
                    .with("priority", child.priority)
                    .with("head", encode::around_time(Head::admitted))
                    .with("admitted", admitted)
            }
        };
        (arguments.packed(), texts.into_vec())
    }
}
