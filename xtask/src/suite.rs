//! What decides whether a change lands, and the parts of it that are quick enough to run after every edit.

use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run};
use crate::stages::{self, stage};
use crate::{programs, secrets, targets, tidy, tools};

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
            stage("build and lints", build),
            stage("docs", documentation),
            stage("tools", installed),
            stage("tests", tests),
            stage("secrets", secrets::check),
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

/// Compiles every test with its lints, and fails at a warning.
fn build() -> Result<()> {
    programs::build(all_tests()).map(drop)
}

fn tests() -> Result<()> {
    programs::run(all_tests())
}

fn all_tests() -> Command {
    programs::cargo_test(["--tests"])
}

fn fast_tests() -> Result<()> {
    let mut tests = programs::cargo_test(["--lib", "--bins"]);
    for name in targets::without_servers()? {
        tests.args(["--test", &name]);
    }
    programs::run(tests)
}
