//! Documents that people write, as JSON or YAML: read strictly, with errors that name the place and the line.

mod place;
mod strict;
mod suggestion;
#[cfg(test)]
mod tests;
mod yaml;

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::json_text;

pub use strict::Strict;
use suggestion::suggested;

/// Bytes of a document, and of any other body.
pub const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Levels of a document, and of any other body.
pub const LEVELS_MAX: usize = 64;

/// Characters of a problem: an error may quote a whole value of the document.
const PROBLEM_CHARS_MAX: usize = 500;
/// Characters of a place.
const PLACE_CHARS_MAX: usize = 200;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// By the name of its file, else by how it begins.
    pub fn guess(file: &str, text: &[u8]) -> Self {
        let is_named = |endings: &[&str]| {
            let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
            ending.is_some_and(|ending| endings.contains(&ending.as_str()))
        };
        let begins_an_object = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        if is_named(&["yaml", "yml"]) || !(begins_an_object || is_named(&["json"])) {
            Self::Yaml
        } else {
            Self::Json
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What a text may be at most.
#[derive(Debug, Clone, Copy)]
pub struct TextBounds {
    /// Aliases of YAML count as what they stand for.
    pub bytes: usize,
    pub levels: usize,
}

impl Default for TextBounds {
    fn default() -> Self {
        Self { bytes: BYTES_MAX, levels: LEVELS_MAX }
    }
}

/// The text of a document within its bounds: JSON, in which each token is on the line on which its author wrote it.
#[derive(Debug, Clone)]
pub struct DocumentText(String);

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDocument {
    /// Such as `steps.build.topic`; empty: the whole document.
    pub place: String,
    pub problem: String,
    /// The first line is 1.
    pub line: Option<usize>,
}

impl std::error::Error for InvalidDocument {}

impl fmt::Display for InvalidDocument {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, problem, line } = self;
        if !place.is_empty() {
            write!(out, "{place}: ")?;
        }
        out.write_str(problem)?;
        line.map_or(Ok(()), |line| write!(out, " (line {line})"))
    }
}

impl InvalidDocument {
    fn new(problem: impl fmt::Display, line: Option<usize>) -> Self {
        let problem = problem.to_string().chars().take(PROBLEM_CHARS_MAX).collect();
        Self { place: String::new(), problem, line }
    }
}

impl DocumentText {
    pub fn new(text: &[u8], format: Format, bounds: TextBounds) -> Result<Self, InvalidDocument> {
        let text =
            std::str::from_utf8(text).map_err(|_| InvalidDocument::new("the text is not UTF-8", None))?;
        let json = match format {
            Format::Json => text.to_owned(),
            Format::Yaml => yaml::as_json(text, bounds)?,
        };
        json_text::check_at(json.as_bytes(), bounds.levels)
            .map_err(|(at, refused)| InvalidDocument::new(refused, Some(place::line(&json, at))))?;
        serde_json::from_str::<IgnoredAny>(&json).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            InvalidDocument::new(format!("not valid JSON: {problem}"), Some(error.line()))
        })?;
        match format {
            _ if json.trim_start().starts_with('{') => Ok(Self(json)),
            Format::Json => Err(InvalidDocument::new("the document must be a JSON object", None)),
            Format::Yaml => {
                Err(InvalidDocument::new("the document must be an object: names and values", None))
            }
        }
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, InvalidDocument> {
        let mut reader = serde_json::Deserializer::from_str(&self.0);
        serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|error| {
            let place = error.path().to_string();
            let place = if place == "." { "" } else { &place };
            let problem = error.into_inner().to_string();
            // The position is where the reader stopped, which may be behind the place.
            let problem = problem.rsplit_once(" at line ").map_or(problem.as_str(), |(problem, _)| problem);
            let located = self.located(place, &suggested(problem));
            let around = place.rsplit_once('.').map_or("", |(around, _)| around);
            let is_named = problem
                .starts_with(&format!("unknown field `{}`", place[around.len()..].trim_start_matches('.')));
            if is_named { InvalidDocument { place: around.to_owned(), ..located } } else { located }
        })
    }

    /// A problem at a place, with the line of the nearest member that exists.
    pub fn located(&self, place: &str, problem: &str) -> InvalidDocument {
        let line = place::offset(&self.0, place).map(|at| place::line(&self.0, at));
        let place = place.chars().take(PLACE_CHARS_MAX).collect();
        InvalidDocument { place, ..InvalidDocument::new(problem, line) }
    }
}
