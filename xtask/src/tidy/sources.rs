//! The files that rules read.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command::root;

/// A text file of the checkout.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// From the root of the checkout, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Whether it is in this folder or below it, or is this file.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Its name without folder and extension.
    pub(crate) fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    /// The lines before the unit tests, with their numbers.
    pub(crate) fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).take_while(|(_, line)| *line != "#[cfg(test)]")
    }
}

/// Every text file under these folders and files, by path. Files that are not UTF-8 are no text.
pub(crate) fn read(places: &[&str]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut open: Vec<_> = places.iter().map(|place| root().join(place)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))?;
            for entry in entries {
                open.push(entry?.path());
            }
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        sources.extend(String::from_utf8(bytes).ok().map(|text| Source { path: name, text }));
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}
