//! The stages of a task: run in order until one fails, timed, and shown as a table at the end.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// A name and what it runs.
pub(crate) type Stage = (&'static str, fn() -> Result<()>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    /// A stage before it failed.
    Skipped,
}

/// Runs the stages and prints the table, also when one of them fails.
pub(crate) fn run(stages: &[Stage]) -> Result<()> {
    run_into(&mut std::io::stdout(), stages)
}

fn run_into(out: &mut impl Write, stages: &[Stage]) -> Result<()> {
    let mut outcomes = Vec::new();
    let mut failure = None;
    for (name, stage) in stages {
        if failure.is_some() {
            outcomes.push((*name, Outcome::Skipped));
            continue;
        }
        let began = Instant::now();
        match stage() {
            Ok(()) => outcomes.push((*name, Outcome::Passed(began.elapsed()))),
            Err(error) => {
                outcomes.push((*name, Outcome::Failed(began.elapsed())));
                failure = Some(error.context(format!("stage `{name}` failed")));
            }
        }
    }
    out.write_all(table(&outcomes).as_bytes()).context("cannot print the stages")?;
    failure.map_or(Ok(()), Err)
}

fn table(outcomes: &[(&str, Outcome)]) -> String {
    let width = outcomes.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max("total".len());
    let line = |name: &str, time: String, result: &str| {
        format!("{name:width$}  {time:>8}  {result}").trim_end().to_owned() + "\n"
    };
    let mut total = Duration::ZERO;
    let mut table = String::from("\n") + &line("stage", "time".to_owned(), "result");
    for (name, outcome) in outcomes {
        table += &match outcome {
            Outcome::Passed(time) | Outcome::Failed(time) => {
                total += *time;
                let is_passed = matches!(outcome, Outcome::Passed(_));
                line(name, shown(*time), if is_passed { "ok" } else { "FAILED" })
            }
            Outcome::Skipped => line(name, String::new(), "not run"),
        };
    }
    table + &line("total", shown(total), "")
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
stage      time  result
tidy      0.1 s  ok
lints  1:23.0 m  FAILED
tests            not run
total  1:23.2 m
";
        assert_eq!(table(&outcomes), expected);
    }

    #[test]
    fn no_stage_runs_after_one_that_failed() {
        let stages: [Stage; 2] = [("broken", || bail!("a reason")), ("never", || panic!("it ran"))];
        let mut out = Vec::new();
        let error = format!("{:#}", run_into(&mut out, &stages).unwrap_err());
        assert_eq!(error, "stage `broken` failed: a reason");
        assert!(String::from_utf8(out).unwrap().contains("never             not run\n"));
    }
}
