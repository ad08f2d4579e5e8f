//! Runs seeds of the whole-system simulation, many at once or one in detail.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use interlock_simulation::{Bug, Failure, Summary, simulate, trace};

/// Simulates the control plane with seeded faults and checks its invariants after every step.
#[derive(Parser)]
#[command(name = "simulate", version)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2_000, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Run only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Plant a bug on purpose, to see it caught.
    #[arg(long, value_parser = parse_bug)]
    plant: Option<Bug>,
}

fn parse_bug(name: &str) -> Result<Bug, String> {
    let names = || Bug::ALL.map(Bug::name).join(", ");
    Bug::named(name).ok_or_else(|| format!("the bugs that can be planted are: {}", names()))
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let verdict = match arguments.seed {
        Some(seed) => one(seed, &arguments)?,
        None => many(&arguments),
    };
    let mut out = std::io::stdout().lock();
    match verdict {
        Ok(summary) => {
            for (name, count) in summary.counts() {
                writeln!(out, "{count:>12} {name}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            writeln!(out, "{failure}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn one(seed: u64, arguments: &Arguments) -> anyhow::Result<Result<Summary, Failure>> {
    if !arguments.trace {
        return Ok(simulate(seed, arguments.plant));
    }
    let (verdict, lines) = trace(seed, arguments.plant);
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(verdict)
}

/// All seeds of the range; stops at the first failure that any thread finds.
fn many(arguments: &Arguments) -> Result<Summary, Failure> {
    let bar = progress_bar(arguments.seeds);
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from.saturating_add(arguments.seeds);
    let has_failed = AtomicBool::new(false);
    let total = Mutex::new(Ok(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                while !has_failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let verdict = simulate(seed, arguments.plant);
                    bar.inc(1);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    match (&mut *total, verdict) {
                        (Ok(sum), Ok(summary)) => sum.add(&summary),
                        (Ok(_), Err(failure)) => {
                            has_failed.store(true, Ordering::Relaxed);
                            *total = Err(failure);
                        }
                        (Err(_), _) => {}
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn progress_bar(seeds: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
