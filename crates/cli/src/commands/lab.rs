//! `interlock lab`: the same load on different strategies and retry policies, measured side by side.

mod launch;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use interlock_lab::contention::ground::Ground;
use interlock_lab::contention::plan::{Plan, Scenario, Size};
use interlock_lab::contention::report::{Report, ScenarioReport, Table};
use interlock_lab::contention::{self, Error, Progress, paper};
use rand::RngExt as _;
use rustix::process::{Resource, Rlimit};

use super::meter::Meter;
use super::own_server::{Standing, Way};
use super::serve::Stops;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, grid, say};
use launch::OwnServers;

pub(crate) const EXAMPLES: &str = "\
Without --gateway or --redis it starts servers of its own in a temporary folder, one for each
strategy. On a server that is there, what that server was started with is measured: only what
clients can choose is compared. It makes tenants of its own, and removes their runs, workflows and
limits; on a server with keys it needs an admin's key for all tenants. docs/operating/lab.md tells
how to read the columns.

Exit codes: 0 measured; 1 a step of a runbook was not as it must be; 3 there was nothing to measure.

Examples:
  interlock lab                                      # everything, in less than a minute
  interlock lab --scenario admission --out ./lab     # with JSON, CSV, pictures and a page
  interlock lab --redis redis://127.0.0.1:6379 --nats nats://127.0.0.1:4222
  interlock lab --gateway http://127.0.0.1:8081 --scenario locks,fairness
  interlock lab --scenario run-lock --seed 42        # the same clients as the last time";

/// Where a lab on Redis keeps its own, apart from every installation.
const PREFIX: &str = "interlock-lab";

/// Seeds that people can remember.
const SEED_MAX: u64 = 999_999;

#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// What to measure [default: all of it]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    scenario: Vec<ScenarioChoice>,
    /// How much load
    #[arg(long, value_enum, default_value = "small")]
    size: SizeChoice,
    /// How long everything together may take; arms that find no time left say so [default: by size, 40 or 600]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    limit_s: Option<u64>,
    /// Of everything random in the load: the same seed gives the same clients and delays
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,
    /// Write JSON, CSV, pictures and a page into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScenarioChoice {
    /// Starts of one tenant at its cap, by strategy and by what clients do
    Admission,
    /// Results for one run, by strategy
    RunLock,
    /// Contenders for one lock, in line or polling
    Locks,
    /// One tenant beside another that storms
    Fairness,
    /// The runbook of idempotent starts
    Idempotency,
    /// The server's waiting against the client's retries
    Budget,
    All,
}

impl ScenarioChoice {
    fn scenarios(self) -> Vec<Scenario> {
        match self {
            Self::Admission => vec![Scenario::Admission],
            Self::RunLock => vec![Scenario::RunLock],
            Self::Locks => vec![Scenario::Locks],
            Self::Fairness => vec![Scenario::Fairness],
            Self::Idempotency => vec![Scenario::Idempotency],
            Self::Budget => vec![Scenario::Budget],
            Self::All => Scenario::ALL.to_vec(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SizeChoice {
    /// As little as shows the shape
    Tiny,
    /// Within a minute
    Small,
    /// Up to a thousand contenders, some minutes
    Full,
}

impl From<SizeChoice> for Size {
    fn from(chosen: SizeChoice) -> Self {
        match chosen {
            SizeChoice::Tiny => Self::Tiny,
            SizeChoice::Small => Self::Small,
            SizeChoice::Full => Self::Full,
        }
    }
}

impl Lab {
    fn plan(&self) -> Plan {
        let mut scenarios: Vec<_> = self.scenario.iter().flat_map(|choice| choice.scenarios()).collect();
        if scenarios.is_empty() {
            scenarios = Scenario::ALL.to_vec();
        }
        scenarios.sort_unstable();
        scenarios.dedup();
        let size = Size::from(self.size);
        Plan {
            seed: self.seed.unwrap_or_else(|| rand::rng().random_range(1..=SEED_MAX)),
            size,
            scenarios,
            limit: self.limit_s.map_or(size.limit(), Duration::from_secs),
        }
    }
}

pub(super) async fn run(lab: Lab, way: Way, tenant: Option<String>, output: Output) -> Result<Exit> {
    let needs_server = way.needs_server(&lab.standing)?;
    if tenant.is_some() {
        let sentence = "the lab makes tenants of its own, so that it disturbs no other: leave out --tenant";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    // Before anything is measured that could not be written down.
    if let Some(folder) = &lab.out {
        fs::create_dir_all(folder).map_err(Failure::local("make the folder for the results"))?;
    }
    let mut stops = Stops::listen()?;
    allow_connections();
    let report = match measure(&lab, way, needs_server, &mut stops).await {
        Ok(report) => report,
        Err(Error::Api(error)) => return Err(error.into()),
        Err(Error::Launch(error)) => return not_begun(error),
    };
    if let Some(folder) = &lab.out {
        let written = paper::write(&report, folder).map_err(Failure::local("write the results"))?;
        say(&format!("{} files are in {}; open {}", written.len(), folder.display(), paper::PAGE));
    }
    show(&report, output)
}

/// A thousand clients and their server, all in this process, want more files than most shells allow at first.
fn allow_connections() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // If not, whoever finds no connection is counted among the other answers.
    let _raised = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

async fn measure(
    lab: &Lab,
    way: Way,
    needs_server: bool,
    stops: &mut Stops,
) -> std::result::Result<Report, Error> {
    let plan = lab.plan();
    let meter = Meter::bar();
    let progress = |progress: Progress<'_>| {
        meter.advance(progress.done, progress.arms);
        meter.tell(progress.doing);
    };
    if !needs_server {
        let ground = Ground::There(way.connection);
        return Box::pin(contention::run(&plan, &ground, &progress, stops.next())).await;
    }
    let prefix = lab.standing.prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    let is_lasting = lab.standing.redis.is_some();
    let standing = Standing { prefix: is_lasting.then_some(prefix), ..lab.standing.clone() };
    let servers =
        OwnServers::new(standing, way.connection).map_err(|failure| Error::Launch(failure.into()))?;
    let ground = Ground::Own { launch: &servers, is_lasting };
    Box::pin(contention::run(&plan, &ground, &progress, stops.next())).await
}

/// There is no server to measure on: wrong usage if it was asked for wrongly, else out of reach.
fn not_begun(error: contention::ground::LaunchError) -> Result<Exit> {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.exit() == Exit::Usage => Err(*failure),
        Ok(failure) => {
            say(&format!("interlock: {failure}"));
            Ok(Exit::Unreachable)
        }
        Err(other) => {
            say(&format!("interlock: {other}"));
            Ok(Exit::Unreachable)
        }
    }
}

fn show(report: &Report, output: Output) -> Result<Exit> {
    for left in &report.left_behind {
        say(&format!("interlock: could not remove {left}"));
    }
    if let Some(reason) = &report.reason {
        say(&format!("interlock: the lab did not come to its end: {reason}"));
    }
    match output.result(report, describe) {
        // Nobody reads it, but the exit code is a result, too.
        Ok(()) | Err(Failure::Unread) => {}
        Err(failure) => return Err(failure),
    }
    Ok(if report.reason.is_some() {
        Exit::Unreachable
    } else if report.is_as_expected() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

fn describe(report: &Report) -> String {
    let backend = report.backend.as_deref().unwrap_or("nothing");
    let seconds = Duration::from_millis(report.elapsed_ms).as_secs_f64();
    let head = format!("on {backend}, seed {}, {seconds:.1} s", report.seed);
    let tables = report.scenarios.iter().map(describe_scenario);
    [head].into_iter().chain(tables).collect::<Vec<_>>().join("\n\n")
}

fn describe_scenario(scenario: &ScenarioReport) -> String {
    let Table { titles, rows } = scenario.steps().unwrap_or_else(|| scenario.table());
    format!("{}: {}\n{}", scenario.scenario, scenario.sentence, grid(titles, rows))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn plan(line: &str) -> Plan {
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        let Command::Lab(lab) = arguments.command else { panic!("{line} is no lab") };
        lab.plan()
    }

    #[test]
    fn several_scenarios_may_be_named_and_none_means_all() {
        assert_eq!(plan("interlock lab").scenarios, Scenario::ALL);
        assert_eq!(plan("interlock lab --scenario all --scenario locks").scenarios, Scenario::ALL);
        let two = [Scenario::Admission, Scenario::Locks];
        assert_eq!(plan("interlock lab --scenario locks,admission").scenarios, two);
        assert_eq!(plan("interlock lab --scenario locks --scenario admission").scenarios, two);
    }

    #[test]
    fn without_a_word_it_ends_within_the_promised_time() {
        assert!(plan("interlock lab").limit < Duration::from_secs(45));
        assert_eq!(plan("interlock lab --limit-s 7 --seed 3").limit, Duration::from_secs(7));
        assert_eq!(plan("interlock lab --seed 3").seed, 3);
    }
}
