//! Style as a test: what people would otherwise have to remember. A rule reads sources and returns what it finds.

mod conformance;
mod error_pages;
mod file_names;
mod lua;
mod lua_code;
mod module_graph;
mod sources;
mod text;
mod unit_tests;
mod vocabulary;

use anyhow::{Result, bail};
use sources::Source;

pub(crate) fn check() -> Result<()> {
    let sources = sources::read(&["crates", "xtask", "docs", "README.md"])?;
    let findings = [
        file_names::check(&sources),
        text::check(&sources),
        unit_tests::check(&sources),
        conformance::check(&sources),
        error_pages::check(&sources),
        lua::check(&sources),
        module_graph::check(&sources, &module_graph::CONTROL),
        vocabulary::check(&sources),
    ]
    .concat();
    if findings.is_empty() {
        return Ok(());
    }
    bail!("tidy has {} findings:\n{}", findings.len(), findings.join("\n"))
}

/// The Rust files of the workspace.
fn rust(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.has_extension("rs"))
}
