//! Tasks that take longer than a test may: benchmarks, many seeds of the simulation, and the soak.

use std::process::Command;

use anyhow::Result;

use crate::command::{built, cargo, run};
use crate::tools;

pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| {
        ["--redis", "--locks", "--results", "--bombs", "--limits"].contains(&argument.as_str())
    }) {
        tools::provide()?;
    }
    // Built together: two builds with two sets of features would compile the heavy crates twice.
    run(cargo(["build", "--profile", "dist", "--package", "interlock-cli", "--package", "interlock-bench"]))?;
    let mut bench = Command::new(built("dist/interlock-bench")?);
    bench.args(arguments);
    run(bench)
}

pub(crate) fn simulate(arguments: &[String]) -> Result<()> {
    let mut simulation = cargo(["run", "--release", "--package", "interlock-simulation", "--"]);
    simulation.args(arguments);
    run(simulation)
}

/// Seconds that each target of fuzzing takes.
const FUZZ_SECONDS: &str = "300";

/// Inputs that no test has tried, for every target: those in `tests/fuzz` and those beside the code.
fn fuzz() -> Result<()> {
    for selection in
        [&["--test", "fuzz", "--", "--nocapture"][..], &["--lib", "--bins", "--", "--nocapture", "fuzz::"]]
    {
        let mut tests = cargo(["test", "--workspace", "--all-features"]);
        tests.args(selection).env("INTERLOCK_SOAK_FUZZ_SECONDS", FUZZ_SECONDS);
        run(tests)?;
    }
    Ok(())
}

pub(crate) fn soak() -> Result<()> {
    simulate(&["--seeds".to_owned(), "100000".to_owned()])?;
    fuzz()?;
    tools::provide()?;
    let mut tests = cargo(["test", "--workspace", "--all-features", "--test", "e2e", "--", "--nocapture"]);
    // The same tests as in the test command, with more of what they do to the servers.
    tests.args(["kills::", "restarts::", "nats_workers::", "chaos::", "openapi::"]);
    tests.env("INTERLOCK_SOAK_KILLS", "100");
    tests.env("INTERLOCK_SOAK_REPLICA_KILLS", "30");
    tests.env("INTERLOCK_SOAK_RESTARTS", "20");
    tests.env("INTERLOCK_SOAK_CHAOS_SECONDS", "300");
    tests.env("INTERLOCK_SOAK_OPENAPI_EXAMPLES", "100");
    run(tests)?;
    run(cargo(["build", "--release", "--package", "interlock-cli", "--package", "interlock-bench"]))?;
    let mut bombs = Command::new(built("release/interlock-bench")?);
    bombs.args(["--bombs", "--seconds", "60"]);
    run(bombs)
}
