//! The program `promtool`, extracted from Debian's package into `target/tools/prometheus`: installing the package would
//! start a Prometheus on the machine.
//!
//! Tests find it there whatever folder cargo builds in (`interlock-servers`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use crate::command::{root, run};

const PACKAGE: &str = "prometheus";

/// Extracts the program from the package, unless it exists.
pub(super) fn provide() -> Result<()> {
    let folder = root().join("target/tools/prometheus");
    let program = folder.join("promtool");
    if program.is_file() {
        return Ok(());
    }
    let work = folder.join("package");
    // Left over from an interrupted attempt.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    if download(&work).is_err() {
        // A fresh machine has no list of packages.
        run(apt(&["update", "--quiet"]))?;
        download(&work)?;
    }
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package_in(&work)?).arg(&work);
    run(unpack)?;
    // Moved last, so that an interrupted installation does not count as complete.
    fs::rename(work.join("usr/bin/promtool"), &program).context("the package has no promtool")?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

fn download(folder: &Path) -> Result<()> {
    let mut download = apt(&["download", "--quiet", PACKAGE]);
    download.current_dir(folder);
    run(download)
}

fn package_in(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = files.filter_map(Result::ok).map(|entry| entry.path());
    let package = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    package.with_context(|| format!("no package of {PACKAGE} was downloaded"))
}
