//! Starts the children that steps ask for: each once, by the current version of its workflow.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::children::{AcquireChildStarts, ChildSettled, ChildSettlement};
use interlock_backend::verbs::SettleChildStart;
use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use interlock_model::child::NewChild;
use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::Blocked;
use interlock_model::limit::rule::{StartFacts, child_claims};
use interlock_model::step::ErrorCode;
use interlock_model::why::{LimitWait, WaitOutcome};
use interlock_model::workflow::Workflow;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::definitions::Definitions;
use crate::limit_books::{CompiledBook, LimitBooks};
use crate::process::Process;
use crate::wakeups::Signal;

/// Children of one tenant that one step takes, and how many of them are started at once.
const CHILDREN_MAX: usize = 64;
const AT_ONCE: usize = 16;

/// How long a child is left to the replica that takes it.
const IN_PROGRESS: Duration = Duration::from_secs(5);

/// How often the definition or the limits may change under one start before it is left to the next look.
const RELOADS_MAX: u32 = 5;

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildrenReport {
    pub started: usize,
    pub queued: usize,
    pub refused: usize,
    /// Settled by another replica meanwhile, or given up.
    pub not_wanted: usize,
    /// Could not be settled this time; they are due again.
    pub failed: usize,
}

/// Starts children, or reports to their parents why not.
pub struct Children {
    process: Arc<Process>,
    definitions: Arc<Definitions>,
    limit_books: Arc<LimitBooks>,
}

/// Starts children until `shutdown`: woken by the turns that ask for them, and by the reconcilers when one is due.
pub(crate) async fn run(children: Arc<Children>, shutdown: CancellationToken) {
    let woken = children.process.wakeups.waiter(Signal::ChildrenWanted);
    let work = async {
        loop {
            children.run_once().await;
            woken.notified().await;
        }
    };
    shutdown.run_until_cancelled(work).await;
}

impl Children {
    /// They start by the same definitions and limits as other runs.
    pub(crate) fn of(
        process: &Arc<Process>,
        definitions: &Arc<Definitions>,
        limit_books: &Arc<LimitBooks>,
    ) -> Self {
        let (process, definitions) = (process.clone(), definitions.clone());
        Self { process, definitions, limit_books: limit_books.clone() }
    }

    /// Starts what is known to be due. An error of one tenant or one child does not stop the others.
    pub async fn run_once(&self) -> ChildrenReport {
        let mut report = ChildrenReport::default();
        while let Some(tenant) = self.process.wakeups.next_wanting() {
            if self.start_some(&tenant, &mut report).await == CHILDREN_MAX {
                // There are more, after the others' turn.
                self.process.wakeups.queue_wanting(tenant);
            }
        }
        if report != ChildrenReport::default() {
            debug!(?report, "settled children");
        }
        report
    }

    /// Returns how many were due.
    async fn start_some(&self, tenant: &TenantId, report: &mut ChildrenReport) -> usize {
        let take =
            AcquireChildStarts { tenant: tenant.clone(), in_progress: IN_PROGRESS, limit: CHILDREN_MAX };
        let due = match self.process.call(take).await {
            Ok(due) => due,
            Err(error) => {
                warn!(%tenant, %error, "could not acquire children to start; retrying at the next poll");
                return 0;
            }
        };
        let count = due.len();
        let settling = stream::iter(due).map(|child| async move { self.settle(tenant, &child).await });
        let mut settled = settling.buffer_unordered(AT_ONCE);
        while let Some(settled) = settled.next().await {
            let counter = match &settled {
                Ok(ChildSettled::Started) => &mut report.started,
                Ok(ChildSettled::Queued(_)) => &mut report.queued,
                Ok(ChildSettled::Refused) => &mut report.refused,
                Ok(ChildSettled::NotWanted) => &mut report.not_wanted,
                Ok(ChildSettled::LimitReached(_) | ChildSettled::QueueFull(_) | ChildSettled::Outdated)
                | Err(_) => &mut report.failed,
            };
            *counter += 1;
        }
        if count > 0 {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        count
    }

    async fn settle(&self, tenant: &TenantId, child: &NewChild) -> Result<ChildSettled, StoreError> {
        let (run, parent) = (child.run, child.parent.run);
        let settled = self.try_settle(tenant, child).await;
        match &settled {
            Ok(ChildSettled::Queued(blocked)) => {
                if let Fullness::Rate { next_at } = blocked.fullness {
                    self.process.due_in(next_at.since(self.process.now()));
                }
                debug!(%tenant, %run, %parent, limit = %blocked.limit, "child queued");
            }
            Ok(settled) => debug!(%tenant, %run, %parent, ?settled, "child settled"),
            Err(error) => warn!(%tenant, %run, %parent, %error, "child not started; it is due again"),
        }
        settled
    }

    /// Asks the store with the current definition and limits, again if they have changed meanwhile.
    async fn try_settle(&self, tenant: &TenantId, child: &NewChild) -> Result<ChildSettled, StoreError> {
        let mut workflow = self.definitions.current(tenant, &child.workflow).await?;
        let mut book = self.limit_books.current(tenant).await?;
        let mut reloads = 0;
        loop {
            let settlement = settlement(child, workflow.as_deref(), &book);
            match self.ask(tenant, child, settlement).await? {
                ChildSettled::Outdated if reloads < RELOADS_MAX => {
                    reloads += 1;
                    workflow = self.definitions.reload(tenant, &child.workflow).await?;
                    book = self.limit_books.reload(tenant).await?;
                }
                ChildSettled::LimitReached(blocked) => {
                    let refusal = self.refusal(&blocked, WaitOutcome::Rejected);
                    return self.ask(tenant, child, refusal).await;
                }
                ChildSettled::QueueFull(blocked) => {
                    let refusal = self.refusal(&blocked, WaitOutcome::QueueFull);
                    return self.ask(tenant, child, refusal).await;
                }
                settled @ (ChildSettled::Started
                | ChildSettled::Queued(_)
                | ChildSettled::Refused
                | ChildSettled::Outdated
                | ChildSettled::NotWanted) => return Ok(settled),
            }
        }
    }

    async fn ask(
        &self,
        tenant: &TenantId,
        child: &NewChild,
        settlement: ChildSettlement,
    ) -> Result<ChildSettled, StoreError> {
        self.process.call(SettleChildStart { tenant: tenant.clone(), child: child.clone(), settlement }).await
    }

    fn refusal(&self, blocked: &Blocked, outcome: WaitOutcome) -> ChildSettlement {
        let now = self.process.now();
        let message = LimitWait { blocked, outcome, now, oldest: None, pause: None }.sentence();
        ChildSettlement::Refuse { code: ErrorCode::LimitReached, message, retryable: true }
    }
}

/// What the definition and the limits make of a child.
fn settlement(child: &NewChild, workflow: Option<&Workflow>, book: &CompiledBook) -> ChildSettlement {
    let refuse = |code, message| ChildSettlement::Refuse { code, message, retryable: false };
    let Some(workflow) = workflow else {
        return refuse(ErrorCode::WorkflowNotFound, format!("there is no workflow {}", child.workflow));
    };
    if let Some(Err(violation)) = workflow.input_schema.as_ref().map(|schema| schema.check(&child.input)) {
        let message = format!("the input does not match the input_schema of {}: {violation}", child.workflow);
        return refuse(ErrorCode::InvalidInput, message);
    }
    let facts = StartFacts { workflow: &child.workflow, input: &child.input, labels: &child.labels };
    match child_claims(&book.rules, &facts) {
        Ok(claims) => ChildSettlement::Start {
            workflow_version: workflow.version,
            limits_revision: book.revision,
            claims,
        },
        Err(no_group) => refuse(ErrorCode::InvalidInput, no_group.to_string()),
    }
}
