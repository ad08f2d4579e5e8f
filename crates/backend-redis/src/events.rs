//! Events: who waits for what is sent to a key.

use interlock_model::RunId;
use interlock_model::event::{EventWaiter, WaitEffects};
use serde::Serialize;

use crate::script::Arguments;

/// A step that begins to wait: for what, and its place in the index.
#[derive(Serialize)]
struct WaiterRow {
    place: String,
    member: String,
}

fn member(run: RunId, waiter: &EventWaiter) -> String {
    format!("{}/{run}/{}", waiter.place(), waiter.step)
}

/// What a commit of `run` does about waits for keys; nothing of most.
pub(crate) fn with_waits(arguments: Arguments, run: RunId, waits: &WaitEffects) -> Arguments {
    let WaitEffects { begun, ended } = waits;
    let mut arguments = arguments;
    if !begun.is_empty() {
        let row = |waiter: &EventWaiter| WaiterRow { place: waiter.place(), member: member(run, waiter) };
        arguments = arguments.with("waits_begun", begun.iter().map(row).collect::<Vec<_>>());
    }
    if !ended.is_empty() {
        let members: Vec<String> = ended.iter().map(|waiter| member(run, waiter)).collect();
        arguments = arguments.with("waits_ended", members);
    }
    arguments
}
