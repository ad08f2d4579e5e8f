//! Style as a test: what people would otherwise have to remember.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command::root;

const LINES_MAX: usize = 400;
const COLUMNS_MAX: usize = 125;
/// Names that say nothing about what is in them.
const VAGUE: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];
/// Words that mean "not done yet".
const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

pub(crate) fn check() -> Result<()> {
    let mut findings = Vec::new();
    let files = sources()?;
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(file).to_owned();
        look_at_name(&name, &mut findings);
        look_at_text(&name, &text, &mut findings);
    }
    look_at_rules(&mut findings)?;
    look_at_errors(&mut findings)?;
    if findings.is_empty() {
        return Ok(());
    }
    bail!("tidy found {} places:\n{}", findings.len(), findings.join("\n"))
}

/// Every Rust file of the workspace.
fn sources() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root().join("crates"), root().join("xtask")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn look_at_name(file: &Path, findings: &mut Vec<String>) {
    let is_vague = |part: &std::ffi::OsStr| {
        Path::new(part).file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| VAGUE.contains(&stem))
    };
    if file.iter().any(is_vague) {
        findings.push(format!("{}: the name says nothing about what is in it", file.display()));
    }
}

fn look_at_text(file: &Path, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    if lines > LINES_MAX {
        findings.push(format!(
            "{}: {lines} lines; find the missing noun ({LINES_MAX} is the most)",
            file.display()
        ));
    }
    let is_this_file = file.ends_with("tidy.rs");
    for (number, line) in (1..).zip(text.lines()) {
        let mut find = |what: &str| findings.push(format!("{}:{number}: {what}", file.display()));
        if line.chars().count() > COLUMNS_MAX {
            find("the line is too long");
        }
        if !is_this_file && UNFINISHED.iter().any(|word| line.contains(word)) {
            find("finish it, or write it down where it is read");
        }
        if !is_this_file && line.contains("thread::sleep(") {
            find("do not sleep to wait: wait on a condition, with a limit");
        }
        if !is_this_file && line.trim_start().starts_with("#[ignore") {
            find("a test that does not run guards nothing");
        }
    }
}

/// Every rule of the conformance suite is in the macro that backends run.
fn look_at_rules(findings: &mut Vec<String>) -> Result<()> {
    let folder = root().join("crates/backend/src/conformance");
    let suite = fs::read_to_string(folder.join("mod.rs"))?;
    let listed: BTreeSet<&str> = suite.lines().filter_map(|line| line.trim().strip_suffix(',')).collect();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.is_dir() || path.ends_with("mod.rs") || path.ends_with("versus_memory.rs") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let rule = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next());
            if let Some(rule) = rule.filter(|rule| !listed.contains(rule)) {
                findings.push(format!("{}: no backend runs the rule {rule}", path.display()));
            }
        }
    }
    Ok(())
}

/// Every error code has a page that says what to do.
fn look_at_errors(findings: &mut Vec<String>) -> Result<()> {
    let codes = fs::read_to_string(root().join("crates/api/src/problem.rs"))?;
    let quoted = codes.lines().filter_map(|line| {
        let (_, rest) = line.split_once("=> \"")?;
        let (code, _) = rest.split_once('"')?;
        code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(code)
    });
    for code in quoted.collect::<BTreeSet<_>>() {
        let page = root().join("docs/errors").join(format!("{code}.md"));
        if !page.exists() {
            findings.push(format!("docs/errors/{code}.md: the error code has no page"));
        }
    }
    Ok(())
}
