//! The examples that guard a place outside by the fence that comes with a job: each place keeps the same rules.

mod files;
mod http;
mod page;
mod postgres;
mod rules;

use std::path::{Path, PathBuf};
use std::process::Output;

use super::walk_through::root;

/// A place of the examples, used through what the examples ship.
trait Place {
    /// The folder of its example, and what its worker must find in the environment.
    fn worker(&self) -> (PathBuf, Vec<(&'static str, String)>);
    /// The version; none if the fence is stale.
    async fn take(&self, item: &str, fence: u64) -> Option<u64>;
    /// The next version; none if it was refused.
    async fn write(&self, write: Write<'_>) -> Option<u64>;
    async fn kept(&self, item: &str) -> Kept;
}

struct Write<'a> {
    item: &'a str,
    fence: u64,
    version: u64,
    body: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
struct Kept {
    body: String,
    version: u64,
}

impl Kept {
    fn new(body: &str, version: u64) -> Self {
        Self { body: body.to_owned(), version }
    }
}

fn example(path: &str) -> PathBuf {
    root().join("examples/fences").join(path)
}

/// What a program printed, which must have worked.
fn printed(program: &Path, output: &Output) -> String {
    assert!(output.status.success(), "{}: {output:?}", program.display());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
