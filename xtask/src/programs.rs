//! The test programs of the workspace, run side by side: most of them wait for servers more than they compute.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::{cargo, root};
use crate::secrets;
use crate::stages::{self, Outcome};

/// Programs that run at once, and tests at once in each: two cores are busy with them.
const LANES: usize = 3;
const THREADS: &str = "4";

/// The programs that take longest begin first, so that none of them is left alone at the end.
const LONGEST: [&str; 3] = ["e2e", "seeds", "cluster"];

/// Rows of the table when all have passed.
const SHOWN: usize = 12;

/// A test program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its package and its target, as `control/locks`.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// Where cargo would run it.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Reads a message of cargo. Messages about other things are none.
    pub(crate) fn read(message: &Value) -> Result<Option<Self>> {
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
        let (true, Some(executable), Some(manifest), Some(target)) =
            (is_test, text("/executable"), text("/manifest_path"), text("/target/name"))
        else {
            return Ok(None);
        };
        let folder = Path::new(manifest).parent().context("a manifest is in a folder")?;
        let package = folder.file_name().context("a package has a folder")?.to_string_lossy();
        let name = format!("{package}/{target}");
        Ok(Some(Self { name, executable: executable.into(), folder: folder.into() }))
    }

    /// Where in the order it begins.
    fn place(&self) -> usize {
        let target = self.name.rsplit('/').next();
        LONGEST.iter().position(|name| Some(*name) == target).unwrap_or(LONGEST.len())
    }

    /// Runs it. Its output goes to a file until it has ended: the outputs of two programs must not mix.
    fn run(&self, log: &Path) -> Result<bool> {
        let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("RUST_TEST_THREADS", THREADS).env(secrets::VARIABLE, secrets::file());
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let status = command.status().with_context(|| format!("cannot run {}", self.executable.display()))?;
        Ok(status.success())
    }
}

/// The command that compiles tests of the workspace. Clippy compiles them: it is the compiler with more lints, so what is
/// linted need not be compiled a second time.
pub(crate) fn cargo_test<const N: usize>(selection: [&str; N]) -> Command {
    let mut command = cargo(["test", "--workspace", "--all-features", "--no-run", "--message-format=json"]);
    command.args(selection).env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    command
}

/// Builds with this command and returns the programs. A warning is an error.
pub(crate) fn build(mut command: Command) -> Result<Vec<Program>> {
    let mut cargo = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let messages = BufReader::new(cargo.stdout.take().context("cargo has an output")?);
    let (mut programs, mut complaints) = (Vec::new(), 0);
    for message in messages.lines() {
        let message: Value = serde_json::from_str(&message?).context("cargo printed what is not JSON")?;
        programs.extend(Program::read(&message)?);
        if let Some(complaint) = complaint(&message) {
            complaints += 1;
            std::io::stderr().write_all(complaint.as_bytes())?;
        }
    }
    let status = cargo.wait()?;
    if !status.success() || complaints > 0 {
        bail!("the tests do not build without a warning: {complaints} errors and warnings, {status}");
    }
    programs.sort_by_key(Program::place);
    Ok(programs)
}

/// An error or a warning, as the compiler prints it.
fn complaint(message: &Value) -> Option<&str> {
    let level = message.pointer("/message/level")?.as_str()?;
    let is_complaint = level.starts_with("error") || level == "warning";
    message.pointer("/message/rendered")?.as_str().filter(|_| is_complaint)
}

/// Builds the test programs with this command and runs all of them, also when one fails. Prints the output of each when
/// it has ended, and a table of those that took longest.
pub(crate) fn run(command: Command) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(build(command)?));
    clear_output()?;
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(|| run_lane(&waiting, &ended))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(_, outcome): &(String, Outcome)| std::cmp::Reverse(outcome.time()));
    let failed: Vec<_> = ended.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).collect();
    let shown = if failed.is_empty() { SHOWN } else { ended.len() };
    let rows = ended.iter().take(shown).map(|(name, outcome)| (name.as_str(), *outcome));
    std::io::stdout().write_all(stages::table("test program", rows).as_bytes())?;
    if !failed.is_empty() {
        bail!("{} of {} test programs failed", failed.len(), ended.len());
    }
    Ok(())
}

/// Where the outputs of test programs are, with the logs of the servers that they start.
pub(crate) fn output_folder() -> PathBuf {
    root().join("target/test-output")
}

/// Removes what earlier runs left: their outputs and their secrets.
fn clear_output() -> Result<()> {
    let folder = output_folder();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(secrets::file(), "").context("cannot clear the list of secrets")
}

fn run_lane(waiting: &Mutex<VecDeque<Program>>, ended: &Mutex<Vec<(String, Outcome)>>) -> Result<()> {
    let logs = output_folder();
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(program) = next else { return Ok(()) };
        let log = logs.join(program.name.replace('/', "-") + ".txt");
        let began = Instant::now();
        let is_passed = program.run(&log)?;
        let time = began.elapsed();
        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n     Ran {}", program.name)?;
        std::io::copy(&mut File::open(&log)?, &mut out)?;
        ended.push((program.name, if is_passed { Outcome::Passed(time) } else { Outcome::Failed(time) }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_test_program_is_read_from_the_message_of_cargo() {
        let message = json!({
            "reason": "compiler-artifact", "manifest_path": "/x/crates/control/Cargo.toml",
            "target": {"name": "locks"}, "profile": {"test": true}, "executable": "/x/target/debug/deps/locks-1",
        });
        let expected = Program {
            name: "control/locks".to_owned(),
            executable: "/x/target/debug/deps/locks-1".into(),
            folder: "/x/crates/control".into(),
        };
        assert_eq!(Program::read(&message).unwrap(), Some(expected));
        assert_eq!(complaint(&message), None);
    }

    #[test]
    fn a_program_that_is_no_test_is_left_out() {
        let program = json!({
            "manifest_path": "/x/Cargo.toml", "target": {"name": "x"}, "profile": {"test": false}, "executable": "/x/x",
        });
        assert_eq!(Program::read(&program).unwrap(), None);
    }

    #[test]
    fn a_warning_is_a_complaint_and_a_note_is_none() {
        let message =
            |level| json!({"reason": "compiler-message", "message": {"level": level, "rendered": "unused"}});
        assert_eq!(complaint(&message("warning")), Some("unused"));
        assert_eq!(complaint(&message("error: internal compiler error")), Some("unused"));
        assert_eq!(complaint(&message("failure-note")), None);
    }
}
