//! Starts on their way to the script: alone when there is time, together when there is not.

use std::sync::Arc;

use interlock_backend::{Effect, StoreError};
use interlock_model::admission::{Admission, FirstTurn, StartRun, Usage};
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::RUNS_MAX_DEFAULT;
use interlock_model::run::Head;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;
use interlock_model::{Fence, TenantId, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::encode;
use crate::link::{Link, damaged};
use crate::script::{Argument, Call, Fields, Unreadable};
use crate::scripts;

/// Starts that may wait in this process. More are told at once that nothing was done.
const WAITING_MAX: usize = 4_096;
/// What one call takes at most: Redis does nothing else meanwhile.
const BATCH_MAX: usize = 32;
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Calls on their way at once. While one is decided, the next gathers.
const LANES: usize = 3;

/// The same on a Cluster, over all of its nodes.
const CLUSTER_CALLS_MAX: usize = 256;

const ACTION: &str = "admit a run";

type Answer = Result<Admission, StoreError>;

/// A start, ready to be sent.
struct Waiting {
    tenant: TenantId,
    arguments: Vec<Vec<u8>>,
    answer: oneshot::Sender<Answer>,
}

pub(crate) struct Admissions {
    queue: mpsc::Sender<Waiting>,
}

impl Admissions {
    /// The lanes that send what waits, until `stop`.
    pub(crate) fn start(link: &Arc<Link>, stop: &CancellationToken) -> Self {
        let (queue, gathering) = mpsc::channel(WAITING_MAX);
        let calls = Arc::new(Semaphore::new(CLUSTER_CALLS_MAX));
        let gathering = Arc::new(tokio::sync::Mutex::new(gathering));
        for _ in 0..LANES {
            let lane = run_lane(link.clone(), gathering.clone(), calls.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(lane));
        }
        Self { queue }
    }

    pub(crate) async fn admit(&self, link: &Link, start: &StartRun) -> Answer {
        let (answer, answered) = oneshot::channel();
        let arguments = arguments(link, start);
        let waiting = Waiting { tenant: start.tenant.clone(), arguments, answer };
        let not_done = |reason: &str| unavailable(Effect::NotDone, reason);
        self.queue.try_send(waiting).map_err(|_| not_done("too many starts are waiting for the store"))?;
        answered.await.map_err(|_| unavailable(Effect::Unknown, "the store is being closed"))?
    }
}

fn unavailable(effect: Effect, reason: &str) -> StoreError {
    StoreError::Unavailable { action: ACTION, effect, reason: reason.to_owned() }
}

async fn run_lane(
    link: Arc<Link>,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Waiting>>>,
    calls: Arc<Semaphore>,
) {
    loop {
        let Some(batch) = gather(&waiting).await else { return };
        if link.connection().is_cluster() {
            // A script stays on one node, and a tenant has one. Side by side: a node that hangs keeps only its own.
            for batch in by_tenant(batch) {
                let Ok(permit) = calls.clone().acquire_owned().await else { return };
                let link = link.clone();
                tokio::spawn(async move {
                    decide(&link, batch).await;
                    drop(permit);
                });
            }
        } else {
            decide(&link, batch).await;
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
    waiting.arguments.iter().map(Vec::len).sum()
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
async fn decide(link: &Link, batch: Vec<Waiting>) {
    let mut ready = Vec::with_capacity(batch.len());
    for waiting in batch {
        match link.list_tenant_once(&waiting.tenant).await {
            Ok(()) => ready.push(waiting),
            // The list of tenants was not written, and nothing else was tried.
            Err(error) => drop(waiting.answer.send(Err(unavailable(Effect::NotDone, &error.reason)))),
        }
    }
    let Some(first) = ready.first() else { return };
    let mut call = Call::write(&scripts::ADMIT, ACTION, &first.tenant).with(ready.len());
    for waiting in &mut ready {
        call.arguments.append(&mut waiting.arguments);
    }
    let name = call.script.name;
    let answered = link.call_once(call).await.and_then(|value| {
        let fields = Fields::of(name, value).map_err(|error| damaged(name, error))?;
        fields.each(|fields| read_answer(fields.list()?)).map_err(|error| damaged(name, error))
    });
    match answered {
        Ok(answers) if answers.len() == ready.len() => {
            for (waiting, answer) in ready.into_iter().zip(answers) {
                // Whoever has stopped waiting finds out by asking again.
                let _ = waiting.answer.send(answer);
            }
        }
        Ok(_) => {
            let wrong = Unreadable("the answers are not as many as the starts".into());
            tell_all(ready, &damaged(name, wrong));
        }
        Err(error) => tell_all(ready, &error),
    }
}

fn tell_all(batch: Vec<Waiting>, error: &StoreError) {
    for waiting in batch {
        let _ = waiting.answer.send(Err(error.clone()));
    }
}

/// A start as the script reads it. See `lua/admit.lua`.
fn arguments(link: &Link, start: &StartRun) -> Vec<Vec<u8>> {
    let (system, _) = link.known().system_limits();
    let rows = rows(start);
    let mut put = Vec::with_capacity(rows.len() + 11);
    put.push(format!("{{{}}}", start.tenant).written());
    put.push(start.run.to_string().written());
    put.push(start.is_repeat.written());
    put.push(start.workflow.as_str().written());
    put.push(start.workflow_version.written());
    put.push(system.runs_max.unwrap_or(RUNS_MAX_DEFAULT).written());
    put.push(system.key_retention.map(millis).written());
    put.push(start.intent.as_ref().map(|intent| intent.key.as_str()).written());
    put.push(start.intent.as_ref().map(|intent| intent.fingerprint.as_str()).written());
    put.push(start.hold.map(Fence::number).written());
    put.push(rows.len().written());
    put.extend(rows);
    put
}

/// What is written if the start is admitted.
fn rows(start: &StartRun) -> Vec<Vec<u8>> {
    let turn = start.first_turn.as_ref();
    let mut put = Vec::new();
    put.push(turn.map(|turn| turn.head.updated_at.as_millis()).written());
    put.push(encode::without_last_time(&start.asked(Timestamp::ZERO)).written());
    let admitted = Event::new(Timestamp::ZERO, EventKind::RunStatus).with_status("pending");
    put.push(encode::without_first_time(&admitted).written());
    let steps = start.copied_steps.iter().chain(turn.into_iter().flat_map(|turn| &turn.steps));
    put.push(steps.clone().count().written());
    for (key, step) in steps {
        put.push(key.to_string().written());
        put.push(encode::json(step).written());
    }
    put_head(&mut put, turn);
    put_turn(&mut put, turn);
    put
}

fn put_head(put: &mut Vec<Vec<u8>>, turn: Option<&FirstTurn>) {
    let admitted = Head::admitted(Timestamp::ZERO);
    let head = turn.map_or(&admitted, |turn| &turn.head);
    put.push(if turn.is_some() { encode::json(head) } else { encode::without_last_time(head) }.written());
    put.push(head.status.name().written());
    put.push(head.version.written());
    put.push(head.fence.number().written());
    put.push(head.due_at.map(Timestamp::as_millis).written());
}

fn put_turn(put: &mut Vec<Vec<u8>>, turn: Option<&FirstTurn>) {
    let events = turn.map_or(&[][..], |turn| &turn.events);
    put.push(events.len().written());
    put.extend(events.iter().map(|event| encode::json(event).written()));
    let dispatched = turn.map_or(&[][..], |turn| &turn.dispatched);
    put.push(dispatched.len().written());
    for job in dispatched {
        encode::put_job(put, job);
    }
    let held = turn.map_or(&[][..], |turn| &turn.held);
    put.push(held.len().written());
    for held in held {
        encode::put_held(put, held);
    }
    let opened = turn.map_or(&[][..], |turn| &turn.approvals_opened);
    put.push(opened.len().written());
    for approval in opened {
        encode::put_approval(put, approval);
    }
}

/// One start's answer: what was decided, or that what is kept of its tenant could not be read.
fn read_answer(mut fields: Fields) -> Result<Answer, Unreadable> {
    let code = fields.text()?;
    if code == "broken" {
        let reason = Unreadable(format!("the start could not be decided: {}", fields.text()?));
        return Ok(Err(damaged(scripts::ADMIT.name, reason)));
    }
    if code == "fenced" {
        let (current, held) = (fields.fence()?, fields.fence()?);
        return Ok(Err(StoreError::Fenced { held, current }));
    }
    Ok(read(&code, fields).map_err(|error| damaged(scripts::ADMIT.name, error)))
}

fn read(code: &str, mut fields: Fields) -> Result<Admission, Unreadable> {
    let detail = fields.optional_text()?;
    let usage = Usage { runs_active: fields.parsed("count")?, runs_max: fields.parsed("limit")? };
    let parse_run = |fields: &Fields| {
        detail.as_ref().and_then(|run| run.parse().ok()).ok_or_else(|| fields.unreadable("run id"))
    };
    match code {
        "admitted" => Ok(Admission::Admitted { run: parse_run(&fields)?, usage }),
        "key_reused" => Ok(Admission::KeyReused { run: parse_run(&fields)?, usage }),
        "replayed" => {
            let run = parse_run(&fields)?;
            let status = fields.optional_text()?.map(|name| encode::run_status(&name)).transpose()?;
            Ok(Admission::Replayed { run, status, usage })
        }
        "changed" => {
            let current = detail.map(|version| version.parse()).transpose();
            Ok(Admission::DefinitionChanged {
                current: current.map_err(|_| fields.unreadable("version"))?,
                usage,
            })
        }
        "full" => {
            let slot_flow =
                SlotFlow { freed_at: fields.optional_time()?, interval_ms: fields.optional("interval")? };
            Ok(Admission::AtCapacity { usage, slot_flow })
        }
        _ => Err(fields.unreadable("admission")),
    }
}
