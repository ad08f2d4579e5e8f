//! `interlock lab`: compares strategies and retry policies under the same load.

mod launch;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use interlock_lab::contention::plan::{LabPlan, LabScenario, LabSize};
use interlock_lab::contention::report::{LabReport, ScenarioReport, TextTable};
use interlock_lab::contention::target::{LabTarget, LaunchError};
use interlock_lab::contention::{self, LabError, LabProgress, files};
use rand::RngExt as _;
use rustix::process::{Resource, Rlimit};

use super::meter::Meter;
use super::own_server::{Standing, Way};
use super::serve::Stops;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, grid, say};
use launch::OwnServers;

pub(crate) const EXAMPLES: &str = "\
Without --gateway or --redis, the lab starts its own servers in a temporary folder, one per
strategy. On an existing server it measures the configuration of that server and compares only
what clients can choose. The lab creates its own tenants and deletes their runs, workflows and
limits afterwards. On a server with API keys it needs an admin key for all tenants.
docs/operating/lab.md explains the columns.

Exit codes: 0 measured; 1 a step of the runbook failed; 3 no server, or interrupted.

Examples:
  interlock lab                                      # everything, in less than a minute
  interlock lab --scenario admission --out ./lab     # also write JSON, CSV, SVG charts and a page
  interlock lab --redis redis://127.0.0.1:6379 --nats nats://127.0.0.1:4222
  interlock lab --gateway http://127.0.0.1:8081 --scenario locks,fairness
  interlock lab --scenario run-lock --seed 42        # repeat the clients of an earlier lab";

/// Separates a lab on Redis from other installations.
const PREFIX: &str = "interlock-lab";

/// The scenario choice that stands for all of them.
const ALL: &str = "all";

/// Random seeds stay short enough to retype.
const SEED_MAX: u64 = 999_999;

#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// Scenarios to measure
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = ALL, value_parser = scenario_parser())]
    scenario: Vec<ScenarioChoice>,
    /// Amount of load
    #[arg(long, value_enum, default_value = "small")]
    size: SizeChoice,
    /// Time limit of the whole lab in seconds; later arms may be skipped [default: 40, or 600 for full]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    limit_s: Option<u64>,
    /// Seed of all randomness in the load: the same seed gives the same clients and delays
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,
    /// Write JSON, CSV, SVG charts and an HTML page into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    standing: Standing,
}

/// A scenario, or all of them.
#[derive(Debug, Clone)]
struct ScenarioChoice(Vec<LabScenario>);

fn scenario_parser() -> impl TypedValueParser<Value = ScenarioChoice> {
    let value = |scenario: LabScenario| PossibleValue::new(scenario.name()).help(scenario.sentence());
    let all = PossibleValue::new(ALL).help("All scenarios");
    let values = LabScenario::ALL.into_iter().map(value).chain([all]);
    PossibleValuesParser::new(values).map(|name| {
        let is_chosen = |scenario: &LabScenario| name == ALL || name == scenario.name();
        ScenarioChoice(LabScenario::ALL.into_iter().filter(is_chosen).collect())
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SizeChoice {
    /// A few seconds, enough to see the shape
    Tiny,
    /// Less than a minute
    Small,
    /// Up to 1,000 contenders, several minutes
    Full,
}

impl From<SizeChoice> for LabSize {
    fn from(chosen: SizeChoice) -> Self {
        match chosen {
            SizeChoice::Tiny => Self::Tiny,
            SizeChoice::Small => Self::Small,
            SizeChoice::Full => Self::Full,
        }
    }
}

impl Lab {
    fn plan(&self) -> LabPlan {
        let mut scenarios: Vec<_> =
            self.scenario.iter().flat_map(|choice| choice.0.iter().copied()).collect();
        scenarios.sort_unstable();
        scenarios.dedup();
        let size = LabSize::from(self.size);
        LabPlan {
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
        let sentence = "The lab creates its own tenants. Remove --tenant";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    // Fails before the measurement if the results could not be written.
    if let Some(folder) = &lab.out {
        fs::create_dir_all(folder).map_err(Failure::local("create the folder for the results"))?;
    }
    let mut stops = Stops::listen()?;
    allow_connections();
    let report = match measure(&lab, way, needs_server, &mut stops).await {
        Ok(report) => report,
        Err(LabError::Api(error)) => return Err(error.into()),
        Err(LabError::Launch(error)) => return not_started(error),
    };
    if let Some(folder) = &lab.out {
        let count = files::write(&report, folder).map_err(Failure::local("write the results"))?;
        say(&format!("Wrote {count} files to {}; open {}", folder.display(), files::PAGE));
    }
    show(&report, output)
}

/// 1,000 clients and their server share this process and need more open files than the default limit of most shells.
fn allow_connections() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // If this fails, the lab counts failed connections as other responses.
    let _raised = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

async fn measure(
    lab: &Lab,
    way: Way,
    needs_server: bool,
    stops: &mut Stops,
) -> std::result::Result<LabReport, LabError> {
    let plan = lab.plan();
    let meter = Meter::bar();
    let progress = |progress: LabProgress<'_>| {
        meter.advance(progress.done, progress.arms);
        meter.tell(progress.activity);
    };
    if !needs_server {
        let target = LabTarget::Existing(way.connection);
        return Box::pin(contention::run(&plan, &target, &progress, stops.next())).await;
    }
    let prefix = lab.standing.prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    let is_persistent = lab.standing.redis.is_some();
    let standing = Standing { prefix: is_persistent.then_some(prefix), ..lab.standing.clone() };
    let servers =
        OwnServers::new(standing, way.connection).map_err(|failure| LabError::Launch(failure.into()))?;
    let target = LabTarget::Own { launcher: &servers, is_persistent };
    Box::pin(contention::run(&plan, &target, &progress, stops.next())).await
}

/// Wrong flags for the lab's own server are wrong usage; every other failure to start it means unreachable.
fn not_started(error: LaunchError) -> Result<Exit> {
    let message = format!("interlock: {error}");
    match error.downcast::<Failure>() {
        Ok(failure) if failure.exit() == Exit::Usage => Err(*failure),
        Ok(_) | Err(_) => {
            say(&message);
            Ok(Exit::Unreachable)
        }
    }
}

fn show(report: &LabReport, output: Output) -> Result<Exit> {
    for left in &report.left_behind {
        say(&format!("interlock: could not remove {left}"));
    }
    if let Some(reason) = &report.reason {
        say(&format!("interlock: the lab is incomplete: {reason}"));
    }
    match output.result(report, describe) {
        // A closed standard output does not change the exit code.
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

fn describe(report: &LabReport) -> String {
    let backend = report.backend.as_deref().unwrap_or("nothing");
    let seconds = Duration::from_millis(report.elapsed_ms).as_secs_f64();
    let head = format!("on {backend}, seed {}, {seconds:.1} s", report.seed);
    let tables = report.scenarios.iter().map(describe_scenario);
    [head].into_iter().chain(tables).collect::<Vec<_>>().join("\n\n")
}

fn describe_scenario(scenario: &ScenarioReport) -> String {
    let TextTable { titles, rows } = scenario.steps().unwrap_or_else(|| scenario.table());
    format!("{}\n{}\n{}", scenario.scenario, scenario.sentence, grid(&titles, rows))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn plan(line: &str) -> LabPlan {
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        let Command::Lab(lab) = arguments.command else { panic!("{line} is not a lab") };
        lab.plan()
    }

    #[test]
    fn scenarios_can_be_combined_and_the_default_is_all() {
        assert_eq!(plan("interlock lab").scenarios, LabScenario::ALL);
        assert_eq!(plan("interlock lab --scenario all --scenario locks").scenarios, LabScenario::ALL);
        let two = [LabScenario::Admission, LabScenario::Locks];
        assert_eq!(plan("interlock lab --scenario locks,admission").scenarios, two);
        assert_eq!(plan("interlock lab --scenario locks --scenario admission").scenarios, two);
    }

    #[test]
    fn the_default_limit_keeps_the_promised_time() {
        assert!(plan("interlock lab").limit < Duration::from_secs(45));
        assert_eq!(plan("interlock lab --limit-s 7 --seed 3").limit, Duration::from_secs(7));
        assert_eq!(plan("interlock lab --seed 3").seed, 3);
    }
}
