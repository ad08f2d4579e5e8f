//! The Python environment of the tests in `target/tools/python`, with the packages of `python-requirements.txt`.
//!
//! Tests find it there whatever folder cargo builds in (`interlock-servers`).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::command::{root, run};

const REQUIREMENTS: &str = include_str!("../../python-requirements.txt");

/// Whether `python3` is installed with what `python3 -m venv` needs, which is a separate package of Debian.
pub(super) fn can_create_environments() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Creates the environment again unless it has the pinned packages.
pub(super) fn provide() -> Result<()> {
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
    // Written last, so that an interrupted installation does not count as complete.
    fs::write(&contents, expected(&folder)?).with_context(|| format!("cannot write {}", contents.display()))
}

/// The content of a complete environment. The version of the interpreter is part of it: packages are built for one
/// version, and the interpreter is a link to a program that may have been replaced or removed since.
fn expected(folder: &Path) -> Result<String> {
    let version = Command::new(folder.join("bin/python")).arg("--version").output();
    let version = version.context("the environment has no interpreter")?;
    if !version.status.success() {
        bail!("the interpreter of the environment does not run: {}", version.status);
    }
    Ok(format!("{}{REQUIREMENTS}", String::from_utf8_lossy(&version.stdout)))
}
