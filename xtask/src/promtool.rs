//! The program `promtool`, in `target/tools/prometheus`. Only it is taken out of Debian's package: installing the package
//! would start a Prometheus on the machine.
//!
//! Tests look for it there whatever folder cargo builds in (`interlock-servers`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{root, run};
use crate::tools::apt;

const PACKAGE: &str = "prometheus";

/// Takes the program out of the package, unless it is there.
pub(crate) fn provide() -> Result<()> {
    let folder = root().join("target/tools/prometheus");
    let program = folder.join("promtool");
    if program.is_file() {
        return Ok(());
    }
    let work = folder.join("package");
    // What an interrupted try has left.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    if download(&work).is_err() {
        // A fresh machine does not know what packages there are.
        run(apt(&["update", "--quiet"]))?;
        download(&work)?;
    }
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package_in(&work)?).arg(&work);
    run(unpack)?;
    // Moved last: an interrupted installation is not taken for a whole one.
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
