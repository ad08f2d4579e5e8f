//! A participant process: receives lines, is paused and resumed by signals, and is killed on drop.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::DrillSettings;
use super::protocol::{Observation, ParticipantCommand, ParticipantRole, ParticipantSettings};

/// How long a process may take to stop after `SIGSTOP`.
const STOP_LIMIT: Duration = Duration::from_secs(5);
const STOP_POLL: Duration = Duration::from_millis(2);

/// If the drill itself is killed, the participant's parent death signal ends it.
pub(super) struct ParticipantProcess {
    role: ParticipantRole,
    child: Child,
    pid: Pid,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ParticipantProcess {
    pub(super) async fn start(drill: &DrillSettings, settings: &ParticipantSettings) -> io::Result<Self> {
        let mut child = Command::new(&drill.program)
            .args(&drill.arguments)
            // Identifies the participant in process listings.
            .arg(settings.worker.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt from the terminal is for the drill, which then ends its participants.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(pid), Some(stdin), Some(stdout)) = (pid, child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the process exited at once"));
        };
        let lines = BufReader::new(stdout).lines();
        let mut process = Self { role: settings.role, child, pid, stdin, lines };
        process.write_line(settings).await?;
        Ok(process)
    }

    /// A paused participant reads the command after it resumes.
    pub(super) async fn send(&mut self, command: ParticipantCommand) -> io::Result<()> {
        self.write_line(&command).await
    }

    /// The answer to the oldest unanswered command.
    pub(super) async fn answer(&mut self) -> io::Result<Observation> {
        let line = self.lines.next_line().await?;
        let exited = || io::Error::other(format!("the {} process exited early", self.role));
        Ok(serde_json::from_str(&line.ok_or_else(exited)?)?)
    }

    /// Pauses the process and waits until all its threads have stopped.
    pub(super) async fn pause(&self) -> io::Result<()> {
        kill_process(self.pid, Signal::STOP)?;
        let stopped = async {
            // Without `EXITED`, so that the exit status is left to the owner of the child.
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            while waitid(WaitId::Pid(self.pid), options)?.is_none() {
                tokio::time::sleep(STOP_POLL).await;
            }
            Ok(())
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the process did not stop");
        tokio::time::timeout(STOP_LIMIT, stopped).await.map_err(late)?
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }

    /// Kills the process and waits until it has exited.
    pub(super) async fn kill(mut self) {
        // An error means that it has already exited.
        let _killed = self.child.kill().await;
    }

    async fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.stdin.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes()).await?;
        self.stdin.flush().await
    }
}
