//! Where the programs are that tests start.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

const ADVICE: &str = "run `cargo xtask test` once: it installs what the tests need";

/// The interpreter of the environment that has what `xtask/python-requirements.txt` pins.
pub fn python() -> Result<PathBuf> {
    python_program("python")
}

/// A program of that environment.
pub fn python_program(name: &str) -> Result<PathBuf> {
    provided(&format!("python/bin/{name}"))
}

/// The program that checks what is written for Prometheus.
pub fn promtool() -> Result<PathBuf> {
    provided("prometheus/promtool")
}

pub(crate) fn newest_nats_server() -> Result<PathBuf> {
    python_program("nats-server")
}

/// The folder with the programs of the newest Postgres. Debian keeps one for each version, none of them on the `PATH`.
pub(crate) fn newest_postgres() -> Result<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().filter_map(Result::ok);
    let numbers = versions.filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok());
    let newest = numbers.map(|number| (number, PathBuf::from(format!("/usr/lib/postgresql/{number}/bin"))));
    let newest = newest.filter(|(_, folder)| folder.join("initdb").is_file()).max();
    newest.map(|(_, folder)| folder).with_context(|| format!("there is no PostgreSQL here; {ADVICE}"))
}

/// A program on the `PATH`, or in `/usr/sbin`, which the `PATH` of most users lacks.
pub(crate) fn installed(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("there is no {program} here; {ADVICE}"))
}

/// A program that xtask has provided, which is in the same place whatever folder cargo builds in.
fn provided(program: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.context("this crate does not stand in a workspace")?;
    let file = root.join("target/tools").join(program);
    file.is_file().then_some(file).with_context(|| format!("there is no {program} in target/tools; {ADVICE}"))
}
