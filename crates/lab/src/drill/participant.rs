//! A holder or a contender: acquires a job and a lock, renews both, writes under their fences, and finishes on command.
//!
//! It does not check its clock before a write and does not stop after a refusal. The guards of the client do both, so
//! real workers send hardly any late writes. The drill is about the remaining ones: a process can be paused between the
//! check and the write, and then only the receiver can refuse it.

mod call;
mod leases;

use std::io::{self, BufRead};
use std::time::Duration;

use interlock_api::client::{Client, ClientSettings};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::plan::DrillOperation;
use super::protocol::{
    DrillOutcome, ParticipantCommand, ParticipantEvent, ParticipantRole, ParticipantSettings,
};
use leases::ParticipantLeases;

const ROUNDS_PER_LEASE: u32 = 4;

/// How long a response may take beyond the requested wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The most unread commands. There are never more than a few.
const COMMANDS_MAX: usize = 64;

/// The job comes first: the server may detect its expired lease later than that of the lock, which is not renewed during
/// the wait.
const ACQUIRE: [DrillOperation; 2] = [DrillOperation::JobClaim, DrillOperation::LockAcquire];

/// The writes that are repeated while the leases are held.
const ROUND: [DrillOperation; 4] = [
    DrillOperation::LockRenew,
    DrillOperation::LedgerWrite,
    DrillOperation::JobHeartbeat,
    DrillOperation::JobProgress,
];

/// The writes after the last round.
const LAST: [DrillOperation; 7] = [
    DrillOperation::LockRenew,
    DrillOperation::LedgerWrite,
    DrillOperation::LockRelease,
    DrillOperation::JobHeartbeat,
    DrillOperation::JobProgress,
    DrillOperation::JobFail,
    DrillOperation::JobComplete,
];

/// Why a participant failed.
#[derive(Debug, thiserror::Error)]
pub enum ParticipantError {
    #[error("could not talk to the drill: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Client(#[from] interlock_api::client::Error),
}

/// Runs a participant from its first line of input to its last.
pub async fn run(
    input: impl BufRead + Send + 'static,
    output: impl AsyncWrite + Unpin,
) -> Result<(), ParticipantError> {
    die_with_the_drill()?;
    let mut lines = input.lines();
    let settings =
        lines.next().transpose()?.ok_or_else(|| io::Error::other("no settings on standard input"))?;
    let settings: ParticipantSettings = serde_json::from_str(&settings).map_err(io::Error::from)?;
    let client = Client::new(ClientSettings {
        api_key: settings.api_key.clone(),
        tenant: settings.tenant.clone(),
        timeout: CALL_TIMEOUT,
        ..ClientSettings::new(&settings.gateway)
    })?;
    let (sender, commands) = mpsc::channel(COMMANDS_MAX);
    // A thread, because a blocking read of standard input cannot be cancelled and would keep the runtime from exiting.
    std::thread::spawn(move || {
        let parsed = lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok());
        parsed.map(|command| sender.blocking_send(command)).take_while(Result::is_ok).for_each(drop);
    });
    let participant = Participant { leases: ParticipantLeases::new(&client, &settings), output };
    match participant.work(&settings, commands).await {
        // The drill was killed.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
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

struct Participant<'a, W> {
    leases: ParticipantLeases<'a>,
    output: W,
}

impl<W: AsyncWrite + Unpin> Participant<'_, W> {
    /// Executes commands until the input ends, an acquisition fails, or the work is finished.
    async fn work(
        mut self,
        settings: &ParticipantSettings,
        mut commands: mpsc::Receiver<ParticipantCommand>,
    ) -> io::Result<()> {
        loop {
            let Some(command) = commands.recv().await else { return Ok(()) };
            if command == ParticipantCommand::Finish {
                return Ok(());
            }
            let is_acquired = tokio::select! {
                result = self.perform(command, &ACQUIRE) => result?,
                // A further command or the end of the input during the wait means that the drill is over.
                _ = commands.recv() => return Ok(()),
            };
            match command {
                ParticipantCommand::Acquire if is_acquired => break,
                ParticipantCommand::Try => {}
                ParticipantCommand::Acquire | ParticipantCommand::Finish => return Ok(()),
            }
        }
        let interval = Duration::from_millis(settings.ttl_ms) / ROUNDS_PER_LEASE;
        loop {
            let next_round = Instant::now() + interval;
            self.perform(ParticipantCommand::Acquire, &ROUND).await?;
            self.emit(&ParticipantEvent::Round).await?;
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(ParticipantCommand::Finish) => break,
                    Some(ParticipantCommand::Try | ParticipantCommand::Acquire) => {}
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(next_round) => {}
            }
        }
        // The late holder tries everything. The contender completes the job and does not fail it.
        let is_contender = settings.role == ParticipantRole::Contender;
        let is_sent = |operation: &DrillOperation| !is_contender || *operation != DrillOperation::JobFail;
        let last: Vec<_> = LAST.into_iter().filter(is_sent).collect();
        self.perform(ParticipantCommand::Finish, &last).await?;
        self.emit(&ParticipantEvent::Done).await
    }

    /// Performs and reports the operations. Returns whether all were accepted.
    async fn perform(
        &mut self,
        command: ParticipantCommand,
        operations: &[DrillOperation],
    ) -> io::Result<bool> {
        let mut is_accepted = true;
        for &operation in operations {
            let observation = self.leases.perform(operation, command).await;
            is_accepted &= observation.outcome == DrillOutcome::Accepted;
            let token = self.leases.lock_token();
            self.emit(&ParticipantEvent::Observed { command, observation, token }).await?;
        }
        Ok(is_accepted)
    }

    async fn emit(&mut self, event: &ParticipantEvent) -> io::Result<()> {
        let line = format!("{}\n", serde_json::to_string(event)?);
        self.output.write_all(line.as_bytes()).await?;
        self.output.flush().await
    }
}
