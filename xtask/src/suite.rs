//! What decides whether a change lands, and the parts of it that are quick enough to run after every edit.

use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run};
use crate::stages::{self, stage};
use crate::{programs, targets, tidy, tools};

/// The inner loop.
pub(crate) fn check() -> Result<()> {
    stages::run(vec![stage("tidy", tidy::check), stage("format", format), stage("lints", lints)])
}

/// Every test that starts no server and no other program.
pub(crate) fn test_fast() -> Result<()> {
    stages::run(vec![stage("tidy", tidy::check), stage("format", format), stage("tests", fast_tests)])
}

/// All that decides.
pub(crate) fn test() -> Result<()> {
    std::thread::scope(|scope| {
        // To install them takes the network more than the cores, which the compiler has meanwhile.
        let tools = scope.spawn(tools::provide);
        let installed = || tools.join().expect("the installation does not panic");
        stages::run(vec![
            stage("tidy", tidy::check),
            stage("format", format),
            stage("lints", lints),
            stage("docs", documentation),
            stage("build", build),
            stage("tools", installed),
            stage("tests", tests),
        ])
    })
}

fn format() -> Result<()> {
    run(cargo(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    run(cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"]))
}

fn documentation() -> Result<()> {
    let mut documentation = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    run(documentation)
}

/// Every stage builds the same packages with the same features, so that none compiles again what another has compiled.
fn tests_of_workspace() -> Command {
    cargo(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"])
}

fn build() -> Result<()> {
    let mut build = tests_of_workspace();
    build.arg("--no-run");
    run(build)
}

fn tests() -> Result<()> {
    programs::run(tests_of_workspace())
}

fn fast_tests() -> Result<()> {
    let mut tests = cargo(["test", "--workspace", "--all-features", "--lib", "--bins"]);
    for name in targets::without_servers()? {
        tests.args(["--test", &name]);
    }
    programs::run(tests)
}
