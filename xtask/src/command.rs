//! Runs other programs and stops when one fails.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in a folder of the checkout")
}

pub(crate) fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root());
    command
}

/// A file that cargo built, beside this program.
pub(crate) fn built(file: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find the path of this program")?;
    let target = this.ancestors().nth(2).context("this program is not where cargo builds")?;
    Ok(target.join(file))
}

pub(crate) fn run(mut command: Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}
