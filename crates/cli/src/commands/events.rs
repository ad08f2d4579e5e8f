//! `interlock event`: send events to the runs that wait for them.

use clap::{Args, Subcommand};
use interlock_api::sent_events::{SendKeyedEventRequest, SentKeyedEventView};
use interlock_model::{EventId, EventKey, EventName};

use super::Session;
use crate::exit::Result;
use crate::input;
use crate::output::say;

const SEND_EXAMPLES: &str = "\
Examples:
  interlock event send paid --key order-17 --data '{\"amount\": 12.50}'
  interlock event send paid --key order-17 --data @event.json --event-id payment-17   # safe to repeat";

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Send an event to every run that waits for its key, or keep it for the next that will
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendToKeyFlags),
}

#[derive(Debug, Args)]
pub(crate) struct SendToKeyFlags {
    /// Name of the event
    name: EventName,
    /// Key that the runs wait for
    #[arg(long, short, value_name = "KEY")]
    key: EventKey,
    /// Data of the event, the output of the steps that take it: JSON, `@FILE`, or `-` for standard input
    #[arg(long, short, value_name = "JSON")]
    data: Option<String>,
    /// Send one event only, however often this id is sent with the same data within a day
    #[arg(long, value_name = "ID")]
    event_id: Option<EventId>,
}

pub(super) async fn run(command: EventCommand, session: &Session) -> Result<()> {
    let EventCommand::Send(SendToKeyFlags { name, key, data, event_id }) = command;
    let data = data.as_deref().map(input::json_argument).transpose()?.unwrap_or_default();
    let sent = session.client.send_event_to_key(&SendKeyedEventRequest { name, key, data, event_id }).await?;
    say(&outcome(&sent));
    session.output.result(&sent, |sent| sent.event_id.to_string())
}

fn outcome(sent: &SentKeyedEventView) -> String {
    match sent {
        SentKeyedEventView { replayed: true, .. } => "this event was sent before".to_owned(),
        SentKeyedEventView { kept: true, .. } => {
            "no run waits for this key: the event is kept for a day, for the next that will".to_owned()
        }
        SentKeyedEventView { runs, has_more: true, .. } => format!("delivered to {runs} runs; more follow"),
        SentKeyedEventView { runs: 1, .. } => "delivered to 1 run".to_owned(),
        SentKeyedEventView { runs, .. } => format!("delivered to {runs} runs"),
    }
}
