//! A process of the drill: spoken to by lines, paused and resumed by signals, and dead with its guard.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::talk::{Brief, Order, Role, Word};

/// How long a process may take to stand still.
const STOP_LIMIT: Duration = Duration::from_secs(5);
const STOP_LOOK: Duration = Duration::from_millis(2);

/// How a process of the drill is started: a program that calls [`super::party::run`].
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

pub(super) struct Process {
    role: Role,
    child: Child,
    pid: Pid,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Kills the process if it is dropped, paused or not. If the drill itself is killed, the process sees to it.
impl Process {
    pub(super) async fn start(launch: &Launch, brief: &Brief) -> io::Result<Self> {
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            // For people who look at a list of processes.
            .arg(brief.worker.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt from the terminal is for the drill, which then ends them in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(pid), stdin, Some(stdout)) = (pid, child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the process ended as it began"));
        };
        let lines = BufReader::new(stdout).lines();
        let mut process = Self { role: brief.role, child, pid, stdin, lines };
        process.send(brief).await?;
        Ok(process)
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// A paused one hears it when it goes on.
    pub(super) async fn order(&mut self, order: Order) -> io::Result<()> {
        self.send(&order).await
    }

    /// The next line; none if there will be no more. May be dropped at any time without losing one.
    pub(super) async fn word(&mut self) -> io::Result<Option<Word>> {
        let line = self.lines.next_line().await?;
        Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
    }

    /// Stops it, and returns once all of it stands still.
    pub(super) async fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let stopped = async {
            // Its end is not waited for here: that is for whoever owns the child.
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            while waitid(WaitId::Pid(self.pid), options)?.is_none() {
                tokio::time::sleep(STOP_LOOK).await;
            }
            Ok(())
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not stand still");
        tokio::time::timeout(STOP_LIMIT, stopped).await.map_err(late)?
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends it, whatever it does, and waits until it is gone.
    pub(super) async fn kill(mut self) {
        // It has ended by itself: that is what was wanted.
        let _gone = self.child.kill().await;
    }

    async fn send(&mut self, line: &impl Serialize) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Err(io::Error::other("it hears nothing")) };
        stdin.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes()).await?;
        stdin.flush().await
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid, signal)?)
    }
}
