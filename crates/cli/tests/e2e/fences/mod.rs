//! The examples that guard an outside resource by the fence of a job: each resource follows the same rules.

mod files;
mod http;
mod page;
mod postgres;
mod rules;

use std::path::{Path, PathBuf};
use std::process::Output;

use super::walk_through::root;

/// A resource of the examples, used through the programs and statements that the examples ship.
trait FencedResource {
    /// The folder of the example, and the environment of its worker.
    fn worker(&self) -> (PathBuf, Vec<(&'static str, String)>);
    /// The version, or `None` if the fence is stale.
    async fn take(&self, item: &str, fence: u64) -> Option<u64>;
    /// The next version, or `None` if the write was refused.
    async fn write(&self, write: Write<'_>) -> Option<u64>;
    async fn stored(&self, item: &str) -> Stored;
}

struct Write<'a> {
    item: &'a str,
    fence: u64,
    version: u64,
    body: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
struct Stored {
    body: String,
    version: u64,
}

impl Stored {
    fn new(body: &str, version: u64) -> Self {
        Self { body: body.to_owned(), version }
    }
}

fn example(path: &str) -> PathBuf {
    root().join("examples/fences").join(path)
}

/// What a program printed. Asserts that it succeeded.
fn printed(program: &Path, output: &Output) -> String {
    assert!(output.status.success(), "{}: {output:?}", program.display());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
