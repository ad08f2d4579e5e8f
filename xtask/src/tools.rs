//! Programs that tests run and that a fresh machine may lack.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::run;
use crate::{promtool, python};

/// Debian packages by the program that is needed of each. `curl`: the README's walk-through is run as it stands there.
const PACKAGES: [(&str, &str); 7] = [
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-benchmark", "redis-tools"),
    ("nats-server", "nats-server"),
    ("initdb", "postgresql"),
];

/// Where Debian's package of Postgres looks before it makes a cluster of its own.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// Installs what is missing.
pub(crate) fn provide() -> Result<()> {
    let mut missing = BTreeSet::new();
    for (program, package) in PACKAGES {
        if !is_there(program)? {
            missing.insert(package);
        }
    }
    if !python::can_make_environments() {
        missing.insert("python3-venv");
    }
    if !missing.is_empty() {
        let packages = Vec::from_iter(missing);
        install(&packages).with_context(|| {
            format!("install these Debian packages by hand, as root, and try again: {}", packages.join(" "))
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

/// Tests start a Postgres of their own: the package must neither make a cluster for the machine nor start it.
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

/// Looks in `/usr/sbin` too: Debian keeps `nats-server` there, and the `PATH` of most users lacks it. The programs of
/// Postgres are in a folder for each version.
fn is_there(program: &str) -> Result<bool> {
    let path =
        "PATH=\"$PATH:/usr/sbin\"; for folder in /usr/lib/postgresql/*/bin; do PATH=\"$PATH:$folder\"; done";
    let found = Command::new("sh").args(["-c", &format!("{path}; command -v {program}")]).output();
    Ok(found.context("cannot run sh")?.status.success())
}
