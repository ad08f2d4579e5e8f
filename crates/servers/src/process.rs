//! A process that does not outlive its guard.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Waits for the end of its input, sends the last signal, and removes the folder when the process has ended. The kernel
/// closes the input when the test's process ends for any reason, so a test that is killed, or keeps a server in a static,
/// leaves nothing behind.
const WATCH: &str = r#"trap "" INT TERM HUP; read -r line; kill -"$2" "$1"
for _ in $(seq 100); do kill -0 "$1" || break; sleep 0.1; done; rm -rf -- "$3""#;
const LOG_LINES_MAX: usize = 20;

/// A running server. Dropping it sends the last signal and waits until the process has ended.
pub(crate) struct Process {
    child: Child,
    watcher: Child,
    last_signal: &'static str,
}

impl Process {
    /// Starts `program` in `folder` and writes its output to the file `log`. The last signal must always end it.
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
        match watch(child.id(), last_signal, folder) {
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

    /// The exit status, if it has ended.
    pub(crate) fn exit(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot check whether a server still runs")
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
        // The id of a process that has ended may belong to another one.
        let is_signalled = matches!(self.exit(), Ok(None)) && self.signal(self.last_signal).is_ok();
        if is_signalled {
            let _ = self.child.wait();
        }
        end(&mut self.child);
        // After the server: if this process is killed meanwhile, the watcher still ends it.
        end(&mut self.watcher);
    }
}

/// The last lines of a server's output.
pub(crate) fn log_tail(folder: &Path) -> String {
    let log = fs::read(log_of(folder)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines = log.lines().count();
    log.lines().skip(lines.saturating_sub(LOG_LINES_MAX)).collect::<Vec<_>>().join("\n")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn watch(pid: u32, last_signal: &str, folder: &Path) -> Result<Child> {
    let mut watcher = Command::new("sh");
    watcher.args(["-c", WATCH, "sh"]).arg(pid.to_string()).arg(last_signal).arg(folder);
    watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn().context("cannot run sh")
}

/// Errors mean that the process has already ended.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use interlock_poll::until;

    use super::*;

    #[tokio::test]
    async fn a_process_and_its_folder_are_gone_after_the_test_process_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut process =
            Process::spawn(Path::new("sleep"), &["600".to_owned()], folder.path(), "KILL").unwrap();
        assert_eq!(process.exit().unwrap(), None);

        // The kernel does this when the test process is killed.
        drop(process.watcher.stdin.take());

        let status = until("the process ends", || ready(process.exit().unwrap())).await;
        assert!(!status.success());
        until("the folder is removed", async || !folder.path().exists()).await;
    }
}
