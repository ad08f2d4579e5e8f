//! Programs that tests run and that a fresh machine may lack.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::run;

/// Debian packages by the program that is needed of each: the README's walk-through is run as it stands there.
const PACKAGES: [(&str, &str); 1] = [("curl", "curl")];

/// Installs what is missing.
pub(crate) fn provide() -> Result<()> {
    for (program, package) in PACKAGES {
        if is_there(program)? {
            continue;
        }
        let mut update = Command::new("apt-get");
        update.args(["update", "--quiet"]);
        run(update)?;
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--quiet", "--no-install-recommends", package]);
        run(install).with_context(|| format!("install {program} by hand and try again"))?;
    }
    Ok(())
}

fn is_there(program: &str) -> Result<bool> {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    Ok(found.context("cannot run sh")?.status.success())
}
