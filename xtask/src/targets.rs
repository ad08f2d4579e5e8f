//! The integration tests of the workspace, by whether they start servers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::command::root;

/// A package whose tests start servers depends on this one.
const SERVERS: &str = "interlock-servers";

/// The names of the integration tests of all packages that start no server and no other program.
pub(crate) fn without_servers() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for package in entries(&root().join("crates"))? {
        let manifest = package.join("Cargo.toml");
        let text =
            fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let tests = package.join("tests");
        if !text.contains(SERVERS) && tests.is_dir() {
            names.extend(entries(&tests)?.iter().filter_map(|test| name(test)));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// The name of a test: a file, or a folder with a `main.rs`.
fn name(path: &Path) -> Option<String> {
    let is_test =
        path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
    path.file_stem().filter(|_| is_test).map(|stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_packages_that_start_servers_are_left_out() {
        let names = without_servers().unwrap();
        let has = |name: &str| names.iter().any(|found| found == name);
        assert!(has("seeds") && has("fuzz"), "{names:?}");
        assert!(!has("e2e") && !has("edge") && !has("servers"), "{names:?}");
    }
}
