//! The paths of the programs that tests start.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

const ADVICE: &str = "run `cargo xtask test` once: it installs what the tests need";

/// The interpreter of the environment with the packages of `xtask/python-requirements.txt`.
pub fn python() -> Result<PathBuf> {
    python_program("python")
}

/// A program of that environment.
pub fn python_program(name: &str) -> Result<PathBuf> {
    provided(&format!("python/bin/{name}"))
}

/// The program that checks metrics and rules for Prometheus.
pub fn promtool() -> Result<PathBuf> {
    provided("prometheus/promtool")
}

pub(crate) fn newest_nats_server() -> Result<PathBuf> {
    python_program("nats-server")
}

/// The folder with the programs of the newest PostgreSQL. Debian has one per version, and none is on the `PATH`.
pub(crate) fn newest_postgres() -> Result<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().filter_map(Result::ok);
    let numbers = versions.filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok());
    let newest = numbers.map(|number| (number, PathBuf::from(format!("/usr/lib/postgresql/{number}/bin"))));
    let newest = newest.filter(|(_, folder)| folder.join("initdb").is_file()).max();
    newest.map(|(_, folder)| folder).with_context(|| format!("PostgreSQL is not installed; {ADVICE}"))
}

/// A program on the `PATH`, or in `/usr/sbin`, which the `PATH` of most users lacks.
pub(crate) fn installed(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("{program} is not installed; {ADVICE}"))
}

/// A program that xtask has installed in the checkout, whatever folder cargo builds in.
fn provided(program: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.context("this crate is not in a workspace")?;
    let file = root.join("target/tools").join(program);
    file.is_file().then_some(file).with_context(|| format!("target/tools has no {program}; {ADVICE}"))
}
