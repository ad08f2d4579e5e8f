//! Starts on their way to the script: alone when there is time, together when there is not.

use std::sync::{Arc, LazyLock};

use interlock_backend::verbs::Admit;
use interlock_backend::{Effect, StoreError, Verb as _};
use interlock_model::admission::{FirstTurn, StartOutcome};
use interlock_model::history::{Event, EventKind};
use interlock_model::run::Head;
use interlock_model::step::StepRun;
use interlock_model::{StepKey, TenantId, Timestamp};
use serde::Deserialize as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::aside;
use crate::children::claim_text;
use crate::client::ScriptClient;
use crate::connect::SendError;
use crate::encode::{self, AroundTime};
use crate::reply::{self, damaged};
use crate::script::{Arguments, Call, Home};
use crate::store::{Execute, RedisStore};
use crate::texts::{LargeText, LargeTexts, Sent};

/// Starts that may wait in this process. The store refuses more at once, with nothing done.
const WAITING_MAX: usize = 4_096;
/// What one call takes at most: Redis does nothing else meanwhile.
const BATCH_MAX: usize = 32;
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Calls on their way at once. While one is decided, the next gathers.
const LANES: usize = 3;

/// The same on a Cluster, over all of its nodes.
const CLUSTER_CALLS_MAX: usize = 256;

type Answer = Result<StartOutcome, StoreError>;

/// A start, ready to be sent.
struct Waiting {
    tenant: TenantId,
    parts: [Vec<u8>; 2],
    /// Large documents that have gone ahead.
    sent: Vec<Sent>,
    answer: oneshot::Sender<Answer>,
}

impl Execute for Admit {
    async fn execute(self, store: &RedisStore) -> Answer {
        store.admissions.admit(&self).await
    }
}

pub(crate) struct Admissions {
    queue: mpsc::Sender<Waiting>,
    client: Arc<ScriptClient>,
}

impl Admissions {
    /// The lanes that send what waits, until `stop`.
    pub(crate) fn start(client: &Arc<ScriptClient>, stop: &CancellationToken) -> Self {
        let (queue, gathering) = mpsc::channel(WAITING_MAX);
        let calls = Arc::new(Semaphore::new(CLUSTER_CALLS_MAX));
        let gathering = Arc::new(tokio::sync::Mutex::new(gathering));
        for _ in 0..LANES {
            let lane = run_lane(client.clone(), gathering.clone(), calls.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(lane));
        }
        Self { queue, client: client.clone() }
    }

    pub(crate) async fn admit(&self, admit: &Admit) -> Answer {
        let (answer, answered) = oneshot::channel();
        // Of a large input, the first turn is left to the engine.
        let bytes = if admit.first_turn().is_some() { 0 } else { usize::MAX };
        let (parts, texts) = aside::unless_small(bytes, || parts(admit));
        let tenant = admit.request.tenant.clone();
        let sent = self.send_ahead(&tenant, &texts).await?;
        if let Err(waiting) = self.queue.try_send(Waiting { tenant, parts, sent, answer }) {
            self.client.drop_sent(&waiting.into_inner().sent).await;
            return Err(unavailable(Effect::NotDone, "too many starts are waiting for the store"));
        }
        let outcome =
            answered.await.map_err(|_| unavailable(Effect::Unknown, "the store is being closed"))??;
        Ok(match outcome {
            // The script does not know by which plan the run begins.
            StartOutcome::Admitted { usage, .. } => admit.admitted(usage),
            outcome @ (StartOutcome::Replayed { .. }
            | StartOutcome::KeyReused { .. }
            | StartOutcome::Queued { .. }
            | StartOutcome::Joined { .. }
            | StartOutcome::LimitReached { .. }
            | StartOutcome::QueueFull { .. }
            | StartOutcome::LimitsChanged { .. }
            | StartOutcome::AtCapacity { .. }
            | StartOutcome::DefinitionChanged { .. }) => outcome,
        })
    }
}

impl Admissions {
    /// Of a tenant that is listed: a refused one leaves nothing behind. The lanes, which all tenants share, do not wait.
    async fn send_ahead(&self, tenant: &TenantId, texts: &[LargeText]) -> Result<Vec<Sent>, StoreError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let explain = |error: SendError| unavailable(error.effect, &error.reason);
        if let Some(refusal) = self.client.list_tenant_once(tenant).await.map_err(explain)? {
            return Err(refusal);
        }
        self.client.send_ahead(&Home::from(tenant), texts).await.map_err(explain)
    }
}

fn unavailable(effect: Effect, reason: &str) -> StoreError {
    StoreError::Unavailable { action: Admit::ACTION, effect, reason: reason.to_owned() }
}

async fn run_lane(
    client: Arc<ScriptClient>,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Waiting>>>,
    calls: Arc<Semaphore>,
) {
    loop {
        let Some(batch) = gather(&waiting).await else { return };
        if client.connection().is_cluster() {
            // A script stays on one node, and a tenant has one. Side by side: a node that hangs keeps only its own.
            for batch in by_tenant(batch) {
                let Ok(permit) = calls.clone().acquire_owned().await else { return };
                let client = client.clone();
                tokio::spawn(async move {
                    decide(&client, batch).await;
                    drop(permit);
                });
            }
        } else {
            decide(&client, batch).await;
        }
    }
}

/// What waits now, at least one.
async fn gather(waiting: &tokio::sync::Mutex<mpsc::Receiver<Waiting>>) -> Option<Vec<Waiting>> {
    let mut waiting = waiting.lock().await;
    let first = waiting.recv().await?;
    let mut bytes = size(&first);
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
        let Ok(next) = waiting.try_recv() else { break };
        bytes += size(&next);
        batch.push(next);
    }
    Some(batch)
}

fn size(waiting: &Waiting) -> usize {
    waiting.parts.iter().map(Vec::len).sum()
}

fn by_tenant(batch: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut groups: Vec<Vec<Waiting>> = Vec::new();
    for waiting in batch {
        match groups.iter_mut().find(|group| group[0].tenant == waiting.tenant) {
            Some(group) => group.push(waiting),
            None => groups.push(vec![waiting]),
        }
    }
    groups
}

/// Sends a batch as one call and gives each start its own answer.
async fn decide(client: &ScriptClient, batch: Vec<Waiting>) {
    let (mut ready, mut starts) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
    for mut waiting in batch {
        match client.list_tenant_once(&waiting.tenant).await {
            Ok(None) => {
                starts.push(std::mem::take(&mut waiting.parts));
                ready.push(waiting);
            }
            Ok(Some(refusal)) => drop(waiting.answer.send(Err(refusal))),
            // The list of tenants was not written, and nothing else was tried.
            Err(error) => drop(waiting.answer.send(Err(unavailable(error.effect, &error.reason)))),
        }
    }
    let Some(home) = ready.first().map(|first| first.tenant.clone()) else { return };
    let sent = ready.iter_mut().flat_map(|waiting| std::mem::take(&mut waiting.sent)).collect();
    let call = Call { starts, sent, ..Call::on_behalf_of::<Admit>(Admit::NAME, &home, Arguments::default()) };
    let answers = client.call_once(&call).await.and_then(|reply| {
        reply::read(&call, &reply, |reply| {
            let answers = reply.into_items().into_iter();
            Ok(answers.map(|answer| reply::judge(&call, answer, StartOutcome::deserialize)).collect())
        })
    });
    match answers {
        Ok(answers) if Vec::len(&answers) == ready.len() => {
            for (waiting, answer) in ready.into_iter().zip(answers) {
                // A caller that has stopped waiting finds out by asking again.
                let _ = waiting.answer.send(answer);
            }
        }
        Ok(_) => answer_all(ready, &damaged(Admit::NAME, "the answers are not as many as the starts".into())),
        Err(error) => answer_all(ready, &error),
    }
}

fn answer_all(batch: Vec<Waiting>, error: &StoreError) {
    for waiting in batch {
        let _ = waiting.answer.send(Err(error.clone()));
    }
}

/// What `lua/admit.lua` decides a start by, what it writes if the start is admitted, and the large documents of both. It
/// does not unpack the second part of a start that it refuses.
fn parts(admit: &Admit) -> ([Vec<u8>; 2], Vec<LargeText>) {
    let mut texts = LargeTexts::default();
    let start = &*admit.request;
    // No version is 0: what cannot begin is answered by its key, or as changed.
    let version = admit.version().unwrap_or(0);
    let question = Arguments::default()
        .with("tag", format!("{{{}}}", start.tenant))
        .with("run", start.run)
        .with("is_repeat", admit.is_repeat)
        .with("workflow", &start.workflow)
        .with("workflow_version", version.to_string())
        .with("key", start.intent.as_ref().map(|intent| &intent.key))
        .with("fingerprint", start.intent.as_ref().map(|intent| &intent.fingerprint))
        .with("limits_revision", admit.plan.as_ref().map(|plan| plan.limits_revision))
        .with("claims", claims(admit))
        .with("fair", fair_claims(admit))
        .with("priority", start.priority)
        .with("admission_fence", admit.admission_fence);
    let document = encode::around_time(|at| start.start(version, at));
    let rows = encode::with_start(Arguments::default(), document, &mut texts);
    let rows = with_beginning(rows, admit, &mut texts);
    ([question.packed(), rows.packed()], texts.into_vec())
}

/// As `lua/shared/claims.lua` reads them. None: only the tenant's own limit counts.
fn claims(admit: &Admit) -> Option<Vec<String>> {
    let claims = admit.plan.as_ref().map(|plan| &plan.claims).filter(|claims| !claims.is_empty())?;
    Some(claims.iter().map(claim_text).collect())
}

/// The same for the groups of fair queues that are charged for the run.
fn fair_claims(admit: &Admit) -> Option<Vec<String>> {
    let claims = admit.plan.as_ref().map(|plan| &plan.fair).filter(|claims| !claims.is_empty())?;
    Some(claims.iter().map(|claim| format!("{}:{}", claim.limit, claim.group.escaped())).collect())
}

/// The events that every run begins with, and its first turn, or that it waits for one.
fn with_beginning(rows: Arguments, admit: &Admit, texts: &mut LargeTexts) -> Arguments {
    static ADMITTED: LazyLock<AroundTime> = LazyLock::new(|| {
        encode::around_time(|at| Event::new(at, EventKind::RunStatus).with_status("pending"))
    });
    static HEAD: LazyLock<AroundTime> = LazyLock::new(|| encode::around_time(Head::admitted));
    let copied_steps = admit.plan.as_ref().map_or(&[][..], |plan| &plan.copied_steps);
    // A run that waits begins without its first turn.
    let rows = rows.with("admitted", &*ADMITTED).with("copied", copied_steps.len());
    if let Some(turn) = admit.first_turn() {
        return with_turn(rows, copied_steps, turn, texts);
    }
    let head = Head::admitted(Timestamp::ZERO);
    rows.with("head", &*HEAD)
        .with("status", head.status)
        .with("version", head.version)
        .with("steps", encode::steps(copied_steps, texts))
}

fn with_turn(
    rows: Arguments,
    copied_steps: &[(StepKey, StepRun)],
    turn: &FirstTurn,
    texts: &mut LargeTexts,
) -> Arguments {
    rows.with("turn_at", turn.head.updated_at)
        .with("head", encode::json(&turn.head))
        .with("status", turn.head.status)
        .with("version", turn.head.version)
        .with("fence", turn.head.fence)
        .with("due_at", turn.head.due_at)
        .with("steps", encode::steps(copied_steps.iter().chain(&turn.steps), texts))
        .with("events", encode::texts(&turn.events))
        .with("dispatched", encode::jobs(&turn.dispatched, texts))
        .with("held", encode::held(&turn.held, texts))
        .with("approvals_opened", encode::approvals(&turn.approvals_opened))
}
