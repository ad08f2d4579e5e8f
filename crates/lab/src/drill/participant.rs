//! A holder or a contender: a process that acquires a job and a lock and writes under their fences, as the drill commands.
//!
//! It does not check its clock before a write and does not stop after a refusal. The guards of the client do both, so
//! real workers send hardly any late writes. The drill is about the remaining ones: a process can be paused between the
//! check and the write, and then only the receiver can refuse it.

mod call;
mod leases;

use std::io;
use std::time::Duration;

use interlock_api::client::{Client, ClientSettings};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::protocol::ParticipantSettings;
use leases::ParticipantLeases;

/// How long a response may take beyond the requested wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a participant failed.
#[derive(Debug, thiserror::Error)]
pub enum ParticipantError {
    #[error("could not talk to the drill: {0}")]
    Io(#[from] io::Error),
    #[error("could not understand the drill: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Client(#[from] interlock_api::client::Error),
}

/// Executes and answers commands from the first line of input to the last.
pub async fn run(
    input: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<(), ParticipantError> {
    die_with_the_drill()?;
    let mut lines = input.lines();
    let Some(settings) = lines.next_line().await? else { return Ok(()) };
    let settings: ParticipantSettings = serde_json::from_str(&settings)?;
    let client = Client::new(ClientSettings {
        api_key: settings.api_key.clone(),
        tenant: settings.tenant.clone(),
        timeout: CALL_TIMEOUT,
        ..ClientSettings::new(&settings.gateway)
    })?;
    let mut leases = ParticipantLeases::new(&client, &settings);
    while let Some(command) = lines.next_line().await? {
        let answer = leases.perform(serde_json::from_str(&command)?).await;
        output.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

/// A paused process does not see the end of its input, so the kernel kills it when the thread that started it exits.
/// (The kernel resumes a stopped process if its process group becomes orphaned, but in a container the group may not:
/// the new parent can be of the same session.)
#[cfg(target_os = "linux")]
fn die_with_the_drill() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn die_with_the_drill() -> io::Result<()> {
    Ok(())
}
