//! The Python environment of the tests: what `python-requirements.txt` pins, in `target/tools/python`.
//!
//! Tests look for it there whatever folder cargo builds in (`interlock-servers`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::command::{root, run};

const REQUIREMENTS: &str = include_str!("../python-requirements.txt");

/// Whether `python3` is there with what `python3 -m venv` needs, which Debian keeps in a package of its own.
pub(crate) fn can_make_environments() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Makes the environment anew, unless it already has what is pinned.
pub(crate) fn provide() -> Result<()> {
    let folder = root().join("target/tools/python");
    let contents = folder.join("contents");
    let is_current = expected(&folder)
        .is_ok_and(|expected| fs::read_to_string(&contents).is_ok_and(|present| present == expected));
    if is_current {
        return Ok(());
    }
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(&folder);
    run(environment)?;
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    install.arg(root().join("xtask/python-requirements.txt"));
    run(install)?;
    // Written last: an interrupted installation is not taken for a whole one.
    fs::write(&contents, expected(&folder)?)
        .with_context(|| format!("cannot say in {} what was installed", contents.display()))
}

/// What a finished environment has. Its interpreter counts: packages are built for one version of it, and it is a
/// link to a program that may have been replaced or removed since.
fn expected(folder: &Path) -> Result<String> {
    let told = Command::new(folder.join("bin/python")).arg("--version").output();
    let told = told.context("the environment has no interpreter")?;
    if !told.status.success() {
        bail!("the interpreter of the environment does not run: {}", told.status);
    }
    Ok(format!("{}{REQUIREMENTS}", String::from_utf8_lossy(&told.stdout)))
}
