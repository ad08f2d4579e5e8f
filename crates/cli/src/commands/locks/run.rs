//! `interlock locks run`: run a command while holding a lock.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use interlock_api::lock_guard::{Guarded, LockSpec};
use interlock_api::locks::LockGrant;
use rustix::process::Signal;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::LockRequestFlags;
use crate::commands::Session;
use crate::commands::group::ProcessGroup;
use crate::exit::{Exit, Failure, Result};
use crate::output::say;

pub(crate) const EXAMPLES: &str = "\
Renews the lock while the command runs, and releases it when the command ends. If the lock may be
lost, kills the command with all its children. The environment of the command has INTERLOCK_FENCE and
INTERLOCK_LOCK_TOKEN: pass the fence to everything that it writes to. Exits with 0 if the command
did, and with 1 otherwise.

Example:
  interlock locks run deploy --wait-ms 60000 -- ./deploy.sh";

#[derive(Debug, Args)]
pub(crate) struct LockRunFlags {
    #[command(flatten)]
    wanted: LockRequestFlags,
    /// Command with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) async fn run(flags: LockRunFlags, session: Session) -> Result<Exit> {
    let LockRunFlags { wanted, command } = flags;
    let spec = LockSpec {
        owner: wanted.owner(),
        resource: wanted.resource,
        mode: wanted.mode,
        ttl: Duration::from_millis(wanted.ttl_ms),
        wait: Duration::from_millis(wanted.wait_ms),
        request: wanted.request_id,
    };
    let resource = spec.resource.clone();
    match session.client.with_lock(spec, |grant| async move { execute(&command, &grant).await }).await {
        Guarded::Done(ended) => Ok(exit_of(ended?)),
        Guarded::Lost { loss, value: None, .. } => {
            say(&format!("{resource} was lost, and the command was killed: {loss}"));
            Ok(Exit::Refused)
        }
        Guarded::Lost { loss, value: Some(_), .. } => {
            say(&format!("{resource} was lost before the command ended: {loss}"));
            Ok(Exit::Refused)
        }
        Guarded::NotAcquired(error) => Err(error.into()),
        Guarded::Unknown(error) => {
            say(&format!("the command was not run: whether {resource} was granted is unknown"));
            Err(Failure::from(error))
        }
    }
}

/// Runs the command to its end. Dropping the future kills the command with all its children.
async fn execute(command: &[OsString], grant: &LockGrant) -> Result<ExitStatus> {
    let (program, arguments) = command.split_first().expect("the arguments require a command");
    let name = program.to_string_lossy().into_owned();
    let mut child = Command::new(program)
        .args(arguments)
        .env("INTERLOCK_FENCE", grant.fence.to_string())
        .env("INTERLOCK_LOCK_TOKEN", grant.token.to_string())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::Usage(format!("could not run `{name}`: {error}")))?;
    let mut group = ProcessGroup::of(&child);
    let listen = |kind| signal(kind).map_err(Failure::local("listen for signals"));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    loop {
        // The command is not in our process group, so signals are passed on to it.
        tokio::select! {
            ended = child.wait() => {
                group.disarm();
                return ended.map_err(Failure::local("wait for the command"));
            }
            _ = interrupt.recv() => group.signal(Signal::INT),
            _ = terminate.recv() => group.signal(Signal::TERM),
        }
    }
}

fn exit_of(ended: ExitStatus) -> Exit {
    if ended.success() {
        return Exit::Done;
    }
    say(&format!("the command ended with {ended}"));
    Exit::Refused
}
