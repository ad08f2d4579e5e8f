//! Installs the programs that tests run.

mod promtool;
mod python;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::run;

/// The programs that tests need, and their Debian packages. The README's walk-through needs `curl`.
const PACKAGES: [(&str, &str); 7] = [
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("nats-server", "nats-server"),
    ("initdb", "postgresql"),
];

/// The settings that Debian's package of PostgreSQL reads before it creates a cluster.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// Installs missing programs.
pub(crate) fn provide() -> Result<()> {
    let mut missing = BTreeSet::new();
    for (program, package) in PACKAGES {
        if !is_installed(program)? {
            missing.insert(package);
        }
    }
    if !python::can_create_environments() {
        missing.insert("python3-venv");
    }
    if !missing.is_empty() {
        let packages = Vec::from_iter(missing);
        install(&packages).with_context(|| {
            format!("install these Debian packages as root and try again: {}", packages.join(" "))
        })?;
    }
    promtool::provide()?;
    python::provide()
}

fn install(packages: &[&str]) -> Result<()> {
    run(apt(&["update", "--quiet"]))?;
    let mut install = apt(&["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.args(packages);
    without_a_cluster(|| run(install))
}

/// Tests start their own PostgreSQL, so the package must not create and start a cluster for the machine.
fn without_a_cluster(install: impl FnOnce() -> Result<()>) -> Result<()> {
    let setting = Path::new(CLUSTER_SETTINGS).join("interlock-tests.conf");
    fs::create_dir_all(CLUSTER_SETTINGS)?;
    fs::write(&setting, "create_main_cluster = false\n")?;
    let installed = install();
    fs::remove_file(&setting)?;
    installed
}

pub(crate) fn apt(arguments: &[&str]) -> Command {
    let mut apt = Command::new("apt-get");
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// Looks in `/usr/sbin` as well, where Debian has `nats-server` and which the `PATH` of most users lacks. The programs
/// of PostgreSQL are in a folder per version.
fn is_installed(program: &str) -> Result<bool> {
    let path =
        "PATH=\"$PATH:/usr/sbin\"; for folder in /usr/lib/postgresql/*/bin; do PATH=\"$PATH:$folder\"; done";
    let found = Command::new("sh").args(["-c", &format!("{path}; command -v {program}")]).output();
    Ok(found.context("cannot run sh")?.status.success())
}
