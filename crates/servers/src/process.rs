//! A process that does not outlive its guard.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Waits for the end of its input, then sends the last signal. The kernel closes that input when the test's process
/// ends, however it ends, so a test that is itself killed, or keeps a server in a static, leaves nothing behind.
const WATCH: &str = r#"trap "" INT TERM HUP; read -r line; kill -"$2" "$1""#;
const LOG_LINES_MAX: usize = 20;

/// A running server. Dropping it sends the last signal and waits until the process is gone.
pub(crate) struct Process {
    child: Child,
    watcher: Child,
    last_signal: &'static str,
}

impl Process {
    /// Starts `program` in `folder`, where its output goes to a file `log`. The last signal must end it for certain.
    pub(crate) fn spawn(
        program: &Path,
        arguments: &[String],
        folder: &Path,
        last_signal: &'static str,
    ) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log_of(folder))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        match watch(child.id(), last_signal) {
            Ok(watcher) => Ok(Self { child, watcher, last_signal }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot tell whether a server still runs")
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid();
        let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
        let status = status.context("cannot run `kill`")?;
        ensure!(status.success(), "`kill -{name} {pid}` failed: {status}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already has no number any more that a signal could go to.
        let is_told = matches!(self.exit(), Ok(None)) && self.signal(self.last_signal).is_ok();
        if is_told {
            let _ = self.child.wait();
        }
        end(&mut self.child);
        // Only after the server: until then the watcher is what survives a kill of this process.
        end(&mut self.watcher);
    }
}

/// The last lines of what a server wrote.
pub(crate) fn log_tail(folder: &Path) -> String {
    let log = fs::read(log_of(folder)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines = log.lines().count();
    log.lines().skip(lines.saturating_sub(LOG_LINES_MAX)).collect::<Vec<_>>().join("\n")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn watch(pid: u32, last_signal: &str) -> Result<Child> {
    let mut watcher = Command::new("sh");
    watcher.args(["-c", WATCH, "sh"]).arg(pid.to_string()).arg(last_signal);
    watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn().context("cannot run sh")
}

/// Errors mean that the process has already ended, which is what is wanted.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{Look, until};

    #[tokio::test]
    async fn a_process_ends_when_whoever_started_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut process =
            Process::spawn(Path::new("sleep"), &["600".to_owned()], folder.path(), "KILL").unwrap();
        assert_eq!(process.exit().unwrap(), None);

        // What the kernel does for a process that was killed.
        drop(process.watcher.stdin.take());

        let look = || {
            let exit = process.exit();
            async { Ok(exit?.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Seen)) }
        };
        let status = until("the process ends", look).await.unwrap();
        assert!(!status.success());
    }
}
