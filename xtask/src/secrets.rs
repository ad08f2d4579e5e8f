//! Looks for the secrets of the tests in the output of the tests, which has the logs of all servers that they started.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::root;
use crate::programs;

/// Tests write the secrets that they use into the file that this variable names.
pub(crate) const VARIABLE: &str = "INTERLOCK_TEST_SECRETS";

/// Characters that are shown of a line with a secret.
const SHOWN_MAX: usize = 200;

/// Not in the folder with the output.
pub(crate) fn file() -> PathBuf {
    root().join("target/test-secrets")
}

pub(crate) fn check() -> Result<()> {
    let secrets = fs::read_to_string(file()).context("the tests wrote no secrets down")?;
    let findings = search(&secrets, &programs::output_folder())?;
    if findings.is_empty() {
        return Ok(());
    }
    bail!("the output of the tests has secrets:\n{}", findings.join("\n"))
}

/// The places below `folder` that have one of the secrets, without the secret.
fn search(secrets: &str, folder: &Path) -> Result<Vec<String>> {
    let secrets: BTreeSet<&str> = secrets.lines().filter(|secret| !secret.is_empty()).collect();
    // Without any, the search would find nothing whatever the logs have.
    ensure!(!secrets.is_empty(), "the tests wrote no secrets down");
    let (mut findings, mut lines) = (Vec::new(), 0);
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))? {
                open.push(entry?.path());
            }
            continue;
        }
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, line) in (1..).zip(String::from_utf8_lossy(&text).lines()) {
            lines += 1;
            for secret in secrets.iter().filter(|secret| line.contains(**secret)) {
                let shown: String = line.replace(secret, "(secret)").chars().take(SHOWN_MAX).collect();
                findings.push(format!("{}:{number}: {shown}", path.display()));
            }
        }
    }
    ensure!(lines > 0, "{} has no output of tests", folder.display());
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(secrets: &str, output: &str) -> Result<Vec<String>> {
        let folder =
            std::env::temp_dir().join(format!("interlock-secrets-{}-{}", std::process::id(), output.len()));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("below/log.txt"), output).unwrap();
        let found = search(secrets, &folder);
        fs::remove_dir_all(&folder).unwrap();
        found
    }

    #[test]
    fn a_secret_is_found_with_its_place_and_not_shown() {
        let found = found("ilk_a_b\nother\n", "quiet\nkey=ilk_a_b!\n").unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("below/log.txt:2: key=(secret)!"), "{found:?}");
    }

    #[test]
    fn nothing_to_look_for_or_to_look_into_is_an_error() {
        assert!(found("", "some output\n").is_err());
        assert!(found("ilk_a_b\n", "").is_err());
        assert_eq!(found("ilk_a_b\n", "ilk_a_c\n").unwrap(), Vec::<String>::new());
    }
}
