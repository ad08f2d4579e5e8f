//! Runs test programs with one mutant active.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::command::run;
use crate::programs::Program;

/// What a mutant may use more than the code: it may loop, and fill memory while it does.
const SLOWER: u32 = 3;
const LONGER: Duration = Duration::from_secs(20);
const MEMORY_KIB: u64 = 6 << 20;
const FILE_BLOCKS: u64 = 2 << 20;

/// A test program, what it takes without a mutant, and which mutants it reaches.
pub(crate) struct Measured {
    pub(crate) program: Program,
    pub(crate) time: Duration,
    pub(crate) reached: BTreeSet<usize>,
}

/// How a mutant was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Catch {
    /// By these tests. None if the program ended before it could name them.
    Failed(Vec<String>),
    TimedOut,
}

/// A place for the output of one program at a time.
pub(crate) struct Lane {
    log: PathBuf,
}

impl Lane {
    pub(crate) fn new(folder: &Path, number: usize) -> Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { log: folder.join(format!("lane-{number}.txt")) })
    }

    /// Runs the program without a mutant. It must pass; on a busy machine, at the second try.
    pub(crate) fn measure(&self, program: Program) -> Result<Measured> {
        let marks = self.log.with_extension("reached");
        let _ = fs::remove_file(&marks);
        let began = Instant::now();
        let mut command = self.command(&program)?;
        let is_passed = command.env("MUTANTS_REACHED", &marks).status()?.success();
        let time = began.elapsed();
        if !is_passed {
            let failed = failed_tests(&fs::read_to_string(&self.log)?);
            let mut again = self.command(&program)?;
            if failed.is_empty() || !again.arg("--exact").args(&failed).status()?.success() {
                bail!("{} fails without a mutant: {failed:?}; see {}", program.name, self.log.display());
            }
        }
        let reached = fs::read_to_string(&marks).unwrap_or_default();
        let reached = reached.lines().filter_map(|number| number.parse().ok()).collect();
        Ok(Measured { program, time, reached })
    }

    /// Runs the program with this mutant. A test that fails must fail twice: a busy machine fails some tests once.
    pub(crate) fn challenge(&self, measured: &Measured, mutant: usize) -> Result<Option<Catch>> {
        let limit = measured.time * SLOWER + LONGER;
        let Some(status) = self.run_within(limit, &measured.program, mutant, &[])? else {
            return Ok(Some(Catch::TimedOut));
        };
        if status.success() {
            return Ok(None);
        }
        let failed = failed_tests(&fs::read_to_string(&self.log).unwrap_or_default());
        if failed.is_empty() {
            return Ok(Some(Catch::Failed(failed)));
        }
        match self.run_within(limit, &measured.program, mutant, &failed)? {
            None => Ok(Some(Catch::TimedOut)),
            Some(status) if status.success() => Ok(None),
            Some(_) => Ok(Some(Catch::Failed(failed))),
        }
    }

    /// None if it had to be stopped.
    fn run_within(
        &self,
        limit: Duration,
        program: &Program,
        mutant: usize,
        tests: &[String],
    ) -> Result<Option<ExitStatus>> {
        let mut command = self.command(program)?;
        command.env("MUTANT_SELECTED", mutant.to_string());
        if !tests.is_empty() {
            command.arg("--exact").args(tests);
        }
        let mut child = command.process_group(0).spawn()?;
        let group = format!("-{}", child.id());
        let (sender, ended) = mpsc::channel();
        let waiting = thread::spawn(move || sender.send(child.wait()));
        let status = ended.recv_timeout(limit).ok().transpose()?;
        if status.is_none() {
            // With the servers that its tests started.
            let mut kill = Command::new("kill");
            kill.args(["-KILL", "--", &group]);
            run(kill)?;
        }
        drop(waiting.join());
        Ok(status)
    }

    fn command(&self, program: &Program) -> Result<Command> {
        let output =
            File::create(&self.log).with_context(|| format!("cannot create {}", self.log.display()))?;
        let mut command = Command::new("sh");
        let limits = format!("ulimit -v {MEMORY_KIB} && ulimit -f {FILE_BLOCKS} && exec \"$0\" \"$@\"");
        command.args(["-c", &limits]).arg(&program.executable);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        command.env("RUST_TEST_THREADS", "4").env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(command)
    }
}

/// The tests that the output of a test program names as failed.
fn failed_tests(output: &str) -> Vec<String> {
    let tests = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // A test that should panic is marked before its result.
    tests.map(|name| name.trim_end_matches(" - should panic").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_from_the_output() {
        let output =
            "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest d - should panic ... FAILED\n";
        assert_eq!(failed_tests(output), ["a::c", "d"]);
    }

    #[test]
    fn a_program_that_takes_too_long_is_stopped_with_what_it_started() {
        let folder = std::env::temp_dir().join(format!("interlock-mutants-{}", std::process::id()));
        let lane = Lane::new(&folder, 0).unwrap();
        let script = folder.join("sleeper");
        fs::write(&script, "#!/bin/sh\nsleep 100 &\nwait\n").unwrap();
        run({
            let mut chmod = Command::new("chmod");
            chmod.arg("+x").arg(&script);
            chmod
        })
        .unwrap();
        let program = Program { name: "sleeper".to_owned(), executable: script, folder: folder.clone() };
        let status = lane.run_within(Duration::from_millis(50), &program, 0, &[]).unwrap();
        assert!(status.is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
