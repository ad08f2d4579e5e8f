//! Builds the mutated tree, and leaves out the mutants that do not compile.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::tree::MutatedTree;
use crate::programs::Program;

/// Each attempt finds the errors of one phase of the compiler in one crate.
const ATTEMPTS_MAX: usize = 40;

/// Builds all test programs of the tree. Mutants that do not compile are removed from it.
pub(crate) fn build(tree: &mut MutatedTree) -> Result<Vec<Program>> {
    for _ in 0..ATTEMPTS_MAX {
        tree.write()?;
        let (programs, errors) = try_build(tree)?;
        if errors.is_empty() {
            return Ok(programs);
        }
        let mut broken = BTreeSet::new();
        for error in &errors {
            match mutants_of(tree, error) {
                named if named.is_empty() => bail!("the mutated tree does not build:\n{}", rendered(error)),
                named => broken.extend(named),
            }
        }
        super::say(&format!("{} mutants do not compile", broken.len()))?;
        tree.mutants.retain(|number, _| !broken.contains(number));
    }
    bail!("the mutated tree does not build after {ATTEMPTS_MAX} attempts")
}

/// The test programs, or the errors of the compiler.
fn try_build(tree: &MutatedTree) -> Result<(Vec<Program>, Vec<Value>)> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--all-features", "--tests", "--no-run", "--message-format=json"]);
    command.arg("--quiet").current_dir(&tree.folder).env_remove("CARGO_TARGET_DIR");
    let mut cargo = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let messages = BufReader::new(cargo.stdout.take().context("cargo has an output")?);
    let (mut programs, mut errors) = (Vec::new(), Vec::new());
    for message in messages.lines() {
        let message: Value = serde_json::from_str(&message?).context("cargo printed what is not JSON")?;
        programs.extend(Program::read(&message)?);
        let level = message.pointer("/message/level").and_then(Value::as_str);
        let has_place = message.pointer("/message/spans/0").is_some();
        errors.extend((level == Some("error") && has_place).then_some(message));
    }
    let status = cargo.wait()?;
    if !status.success() && errors.is_empty() {
        bail!("the mutated tree does not build: {status}");
    }
    Ok((programs, errors))
}

/// The mutants that an error is about: by its main place, or by any that it mentions.
fn mutants_of(tree: &MutatedTree, error: &Value) -> BTreeSet<usize> {
    let spans = error.pointer("/message/spans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_primary = |span: &&Value| span["is_primary"] == true;
    let named = |span: &Value| {
        let file = span["file_name"].as_str()?;
        let offset = |name: &str| usize::try_from(span[name].as_u64()?).ok();
        tree.mutant_at(file, &(offset("byte_start")?..offset("byte_end")?))
    };
    let primary: BTreeSet<usize> = spans.iter().filter(is_primary).filter_map(named).collect();
    if primary.is_empty() { spans.iter().filter_map(named).collect() } else { primary }
}

fn rendered(error: &Value) -> &str {
    error.pointer("/message/rendered").and_then(Value::as_str).unwrap_or_default()
}
