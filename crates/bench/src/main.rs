//! Benchmarks of the binary, each beside a ceiling measured in the same run on the same machine.
//!
//! Absolute numbers of a shared machine say little; the ratio to what the machine can do says a lot.

mod connection;
mod empty_server;
mod group_commit;
mod load;
mod memory;
mod report;
mod runs;
mod server;
mod starts;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use load::Measured;
use report::Report;

#[derive(Debug, Clone, Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Measure starts, refusals, runs and memory beside their ceilings"
)]
struct Arguments {
    /// How long each measurement lasts.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds; the median of each figure is told.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Idle active runs for the memory figure; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    idle_runs: usize,
    /// Only the measurements whose names begin so.
    #[arg(long)]
    only: Option<String>,
    /// JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// The binary to measure; the one beside this program by default.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Serve an empty handler on this port instead of measuring (the ceiling is a process of its own).
    #[arg(long, hide = true)]
    empty_server: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.empty_server {
        return runtime(2)?.block_on(empty_server::serve());
    }
    let report = runtime(1)?.block_on(measure(&arguments))?;
    report.print(arguments.json)
}

/// The server gets the default number of threads; the load, which shares the machine with it, gets one.
fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

/// What is measured, each by its name.
const MEASUREMENTS: [&str; 8] = [
    "empty handler",
    "empty handler, 1 client",
    "bare group commit",
    "admitted starts",
    "admitted starts, 1 client",
    "refused starts",
    "refused starts, 1 client",
    "one-step runs",
];

async fn measure(arguments: &Arguments) -> Result<Report> {
    let binary = server::binary(arguments.binary.as_deref())?;
    let time = Duration::from_secs_f64(arguments.seconds);
    let wanted = |name: &str| arguments.only.as_deref().is_none_or(|only| name.starts_with(only));
    let names: Vec<&'static str> = MEASUREMENTS.into_iter().filter(|name| wanted(name)).collect();
    let mut report = Report::default();
    let progress = indicatif::ProgressBar::new((arguments.rounds * names.len()) as u64);
    progress.set_style(indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);
    for _ in 0..arguments.rounds {
        for &name in &names {
            progress.set_message(name);
            report.add(name, measure_one(name, &binary, time).await?);
            progress.inc(1);
        }
    }
    if arguments.idle_runs > 0 && arguments.only.is_none() {
        progress.set_message("memory of idle runs");
        report.memory = Some(memory::per_idle_run(&binary, arguments.idle_runs).await?);
    }
    progress.finish_and_clear();
    Ok(report)
}

async fn measure_one(name: &str, binary: &Path, time: Duration) -> Result<Measured> {
    let clients = if name.ends_with("1 client") { 1 } else { 64 };
    match name.split(',').next().unwrap_or(name) {
        "empty handler" => starts::empty_handler(time, clients).await,
        "bare group commit" => group_commit::measure(time),
        "admitted starts" => starts::admitted(binary, time, clients).await,
        "refused starts" => starts::refused(binary, time, clients).await,
        "one-step runs" => runs::one_step(binary, time).await,
        other => bail!("there is no measurement {other}"),
    }
}
