//! `interlock run`: start, show, watch and cancel runs.

use clap::{Args, Subcommand};
use interlock_api::history::TimelineItem;
use interlock_api::runs::{MoveRequest, QueueEnd, RunQuery, RunSummary, StartOptions, StartedRun};
use interlock_api::sent_events::SendEventRequest;
use interlock_model::run::RunStatus;
use interlock_model::{EventId, EventName, RunId, StepId, WorkflowId};
use serde_json::json;

use super::wait_for::{self, Wait, wait_max};
use super::{Session, run_steps, watch};
use crate::arguments::{IdArgument, ListFlags, one_of};
use crate::exit::{Exit, Failure, Result};
use crate::input;
use crate::output::{Column, or_dash, say};

const START_EXAMPLES: &str = "\
Examples:
  interlock run start build
  interlock run start build --input '{\"branch\": \"main\"}'
  interlock run start build --input @input.json --idempotency-key order-17   # safe to repeat
  interlock run start build --wait > output.json   # the output of the run; exit code by its outcome
  interlock run start build --label team=red --priority 9   # for the limits that queue it
  make-input | interlock run start build --input -";

const WATCH_EXAMPLES: &str = "\
Exits with 0 if the run succeeded, and with 1 otherwise.

Example: interlock run watch $(interlock run start build)";

const SEND_EXAMPLES: &str = "\
Examples:
  interlock run send-event 0192f0c1-… paid --data '{\"amount\": 12.50}'
  interlock run send-event 0192f0c1-… paid --data @event.json --event-id payment-17   # safe to repeat";

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Start a run and print its id
    #[command(after_help = START_EXAMPLES)]
    Start(RunStartFlags),
    /// Show a run with its steps
    Get(IdArgument),
    /// List runs, newest first
    List(RunListFlags),
    /// Follow a run until it ends
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(IdArgument),
    /// List the events of a run, oldest first
    Timeline {
        #[command(flatten)]
        run: IdArgument,
        #[command(flatten)]
        listing: ListFlags,
    },
    /// Cancel a run
    Cancel(IdArgument),
    /// Send an event to a run, for a step that waits for it
    #[command(after_help = SEND_EXAMPLES)]
    SendEvent(SendEventFlags),
    /// Move a queued run to the front of its queue, or to its back
    Move(MoveFlags),
    /// Start the workflow of a run again with the same input, and print the new run's id
    Rerun(RerunFlags),
    /// Delete a run with its jobs and events; a live run is cancelled first
    Delete(IdArgument),
}

#[derive(Debug, Args)]
pub(crate) struct RunStartFlags {
    /// Workflow id
    workflow: String,
    /// Input of the run: JSON, `@FILE`, or `-` for standard input
    #[arg(long, short, value_name = "JSON")]
    input: Option<String>,
    /// Start one run only, however often this key is sent with the same input
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for the end of the run, at most for SECONDS, and print its output as JSON (with --json the run); exit with 0 if
    /// it succeeded, with 1 if it ended otherwise, and with 3 if it has not ended by then
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "unlimited",
        value_parser = wait_max)]
    wait: Option<Wait>,
    /// How soon it starts among runs that wait in a queue by priority: 9 first [default: 4]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Label of the run, which keys of limits can read; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

/// `name=value`.
pub(super) fn label(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct SendEventFlags {
    #[command(flatten)]
    run: IdArgument,
    /// Name of the event
    name: EventName,
    /// Data of the event, the output of the step that takes it: JSON, `@FILE`, or `-` for standard input
    #[arg(long, short, value_name = "JSON")]
    data: Option<String>,
    /// Send one event only, however often this id is sent with the same data
    #[arg(long, value_name = "ID")]
    event_id: Option<EventId>,
}

#[derive(Debug, Args)]
pub(crate) struct MoveFlags {
    #[command(flatten)]
    run: IdArgument,
    #[command(flatten)]
    to: MoveTo,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct MoveTo {
    /// Let it start before all others of its queue
    #[arg(long)]
    front: bool,
    /// Let it start after all others of its queue
    #[arg(long)]
    back: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunListFlags {
    /// Only runs with this status
    #[arg(long, value_parser = one_of(RunStatus::ALL, RunStatus::name))]
    status: Option<RunStatus>,
    /// Only runs of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<WorkflowId>,
    /// Only runs that steps of this run have started
    #[arg(long, value_name = "RUN")]
    parent: Option<RunId>,
    #[command(flatten)]
    listing: ListFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RerunFlags {
    #[command(flatten)]
    run: IdArgument,
    /// Begin at this step and keep the outputs of the steps before it
    #[arg(long, value_name = "STEP")]
    from_step: Option<StepId>,
    /// Start one run only, however often this key is sent for the same rerun
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

pub(super) async fn run(command: RunCommand, session: &Session) -> Result<Exit> {
    let Session { client, output, .. } = session;
    match command {
        RunCommand::Start(start) => {
            let input = start.input.as_deref().map_or_else(|| Ok(json!({})), input::json_argument)?;
            let RunStartFlags { workflow, idempotency_key: key, priority, label, wait, .. } = start;
            let options = StartOptions { key, priority, labels: label.into_iter().collect() };
            let started = client.start_run_with(&workflow, &input, &options).await?;
            if let Some(wait) = wait {
                note_started(&started);
                return wait_for::run(&started.run_id.to_string(), wait, session).await;
            }
            show_started(&started, session)?;
        }
        RunCommand::Rerun(rerun) => {
            let started =
                client.rerun(&rerun.run.id, rerun.from_step, rerun.idempotency_key.as_deref()).await?;
            show_started(&started, session)?;
        }
        RunCommand::Get(IdArgument { id }) => run_steps::show(&id, session).await?,
        RunCommand::List(RunListFlags { status, workflow, parent, listing }) => {
            let fetch = async |page| {
                client.runs(&RunQuery { status, workflow_id: workflow.clone(), parent, page }).await
            };
            session.list(listing, &COLUMNS, fetch).await?;
        }
        RunCommand::Watch(IdArgument { id }) => return watch::run(&id, session).await,
        RunCommand::Timeline { run, listing } => {
            session.list(listing, &EVENTS, async |page| client.timeline(&run.id, &page).await).await?;
        }
        RunCommand::Cancel(IdArgument { id }) => {
            // The server answers the same for a run that has ended.
            let status = client.run(&id).await?.summary.status;
            if status.is_final() {
                let sentence = format!("run {id} is {} already. Nothing was cancelled", status.name());
                return Err(Failure::Refused(sentence));
            }
            client.cancel_run(&id).await?;
            output.done(
                &json!({"id": id, "cancelled": true}),
                &format!("cancellation of run {id} requested"),
            )?;
        }
        RunCommand::SendEvent(flags) => send_event(flags, session).await?,
        RunCommand::Move(MoveFlags { run: IdArgument { id }, to: MoveTo { front, .. } }) => {
            let (to, place) = if front { (QueueEnd::Front, "front") } else { (QueueEnd::Back, "back") };
            client.move_run(&id, &MoveRequest { to }).await?;
            let sentence = format!("run {id} moved to the {place} of its queue");
            output.done(&json!({"id": id, "moved": place}), &sentence)?;
        }
        RunCommand::Delete(IdArgument { id }) => {
            client.delete_run(&id).await?;
            output.done(&json!({"id": id, "deleted": true}), &format!("run {id} deleted"))?;
        }
    }
    Ok(Exit::Done)
}

async fn send_event(flags: SendEventFlags, session: &Session) -> Result<()> {
    let SendEventFlags { run: IdArgument { id }, name, data, event_id } = flags;
    let data = data.as_deref().map(input::json_argument).transpose()?.unwrap_or_default();
    let sent = session.client.send_event(&id, &SendEventRequest { name, data, event_id }).await?;
    if sent.replayed {
        say("this event was sent before");
    }
    session.output.result(&sent, |sent| sent.event_id.to_string())
}

fn show_started(started: &StartedRun, session: &Session) -> Result<()> {
    note_started(started);
    session.output.result(started, |started| started.run_id.to_string())
}

fn note_started(started: &StartedRun) {
    if started.replayed {
        say(&format!("this idempotency key already started the run; its status is {}", started.status));
    } else if started.joined {
        say(&format!("a limit answers with a run that exists already; its status is {}", started.status));
    } else if let Some(detail) = &started.detail {
        say(detail);
    }
}

const COLUMNS: [Column<RunSummary>; 5] = [
    ("ID", |run| run.id.to_string()),
    ("WORKFLOW", |run| run.workflow_id.to_string()),
    ("STATUS", |run| run.status.name().to_owned()),
    ("CREATED", |run| run.created_at.to_string()),
    ("ENDED", |run| or_dash(run.completed_at.as_ref())),
];

const EVENTS: [Column<TimelineItem>; 6] = [
    ("SEQ", |item| item.seq.to_string()),
    ("TIME", |item| item.time.to_string()),
    ("TYPE", |item| item.r#type.clone()),
    ("STEP", |item| or_dash(item.step_id.as_ref())),
    ("STATUS", |item| or_dash(item.status.as_ref())),
    ("MESSAGE", |item| or_dash(item.message.as_ref())),
];
