//! The stages of a task: run in order until one fails, timed, and shown as a table at the end.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// A name and what it runs.
pub(crate) type Stage<'a> = (&'static str, Box<dyn FnOnce() -> Result<()> + 'a>);

pub(crate) fn stage<'a>(name: &'static str, run: impl FnOnce() -> Result<()> + 'a) -> Stage<'a> {
    (name, Box::new(run))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed(Duration),
    Failed(Duration),
    /// A stage before it failed.
    Skipped,
}

impl Outcome {
    pub(crate) fn time(self) -> Duration {
        match self {
            Self::Passed(time) | Self::Failed(time) => time,
            Self::Skipped => Duration::ZERO,
        }
    }
}

/// Runs the stages and prints the table, also when one of them fails.
pub(crate) fn run(stages: Vec<Stage<'_>>) -> Result<()> {
    run_into(&mut std::io::stdout(), stages)
}

fn run_into(out: &mut impl Write, stages: Vec<Stage<'_>>) -> Result<()> {
    let mut outcomes = Vec::new();
    let mut failure = None;
    for (name, stage) in stages {
        if failure.is_some() {
            outcomes.push((name, Outcome::Skipped));
            continue;
        }
        let began = Instant::now();
        match stage() {
            Ok(()) => outcomes.push((name, Outcome::Passed(began.elapsed()))),
            Err(error) => {
                outcomes.push((name, Outcome::Failed(began.elapsed())));
                failure = Some(error.context(format!("stage `{name}` failed")));
            }
        }
    }
    let total = outcomes.iter().map(|(_, outcome)| outcome.time()).sum();
    let table = table("stage", outcomes.iter().copied()) + &row("total", &shown(total), "");
    out.write_all(table.as_bytes()).context("cannot print the stages")?;
    failure.map_or(Ok(()), Err)
}

/// A table of outcomes with the time of each.
pub(crate) fn table<'a>(heading: &str, outcomes: impl IntoIterator<Item = (&'a str, Outcome)>) -> String {
    let mut table = String::from("\n") + &row(heading, "time", "result");
    for (name, outcome) in outcomes {
        table += &match outcome {
            Outcome::Passed(time) => row(name, &shown(time), "ok"),
            Outcome::Failed(time) => row(name, &shown(time), "FAILED"),
            Outcome::Skipped => row(name, "", "not run"),
        };
    }
    table
}

fn row(name: &str, time: &str, result: &str) -> String {
    format!("{name:24}  {time:>8}  {result}").trim_end().to_owned() + "\n"
}

fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{}:{:04.1} m", time.as_secs() / 60, seconds % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn the_table_names_the_stage_that_failed_and_those_that_did_not_run() {
        let outcomes = [
            ("tidy", Outcome::Passed(Duration::from_millis(120))),
            ("lints", Outcome::Failed(Duration::from_millis(83_040))),
            ("tests", Outcome::Skipped),
        ];
        let expected = "
stage                         time  result
tidy                         0.1 s  ok
lints                     1:23.0 m  FAILED
tests                               not run
";
        assert_eq!(table("stage", outcomes), expected);
    }

    #[test]
    fn no_stage_runs_after_one_that_failed() {
        let stages = vec![stage("broken", || bail!("a reason")), stage("never", || panic!("it ran"))];
        let mut out = Vec::new();
        let error = format!("{:#}", run_into(&mut out, stages).unwrap_err());
        assert_eq!(error, "stage `broken` failed: a reason");
        assert!(String::from_utf8(out).unwrap().contains("never                               not run\n"));
    }
}
