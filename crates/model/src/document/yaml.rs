//! YAML 1.2 as JSON text, each token on its line. So there is one reader of documents, with one set of bounds and errors.

use std::collections::BTreeMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{InvalidDocument, TextBounds};

pub(super) fn as_json(text: &str, bounds: TextBounds) -> Result<String, InvalidDocument> {
    let mut writer = Writer { bounds, line: 1, ..Writer::default() };
    for parsed in Parser::new_from_str(text) {
        let (event, span) = parsed.map_err(|error| {
            InvalidDocument::new(format!("not valid YAML: {}", error.info()), Some(error.marker().line()))
        })?;
        let line = span.start.line();
        writer.take(event, line).map_err(|problem| InvalidDocument::new(problem, Some(line)))?;
    }
    if writer.documents == 0 {
        return Err(InvalidDocument::new("the document is empty", None));
    }
    Ok(writer.json)
}

#[derive(Default)]
struct Writer {
    bounds: TextBounds,
    json: String,
    /// The line that is being written.
    line: usize,
    documents: usize,
    levels: Vec<Level>,
    /// What was written for each anchor, once it is complete.
    anchors: BTreeMap<usize, Range<usize>>,
}

/// A list or an object that is being written.
struct Level {
    anchor: usize,
    start: usize,
    is_empty: bool,
    /// Of an object: what comes next. None: a list.
    next: Option<Next>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Key,
    Value,
}

impl Writer {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("more than one document: use a file for each".to_owned());
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar { text: &text, is_plain: style == ScalarStyle::Plain };
                let start = self.begin(line, Some(scalar))?;
                if self.next() == Some(Next::Key) {
                    self.json.push_str(&scalar.key()?);
                } else {
                    self.json.push_str(&scalar.value(tag.as_deref())?);
                }
                self.complete(anchor, start);
            }
            Event::Alias(anchor) => {
                let start = self.begin(line, None)?;
                let meant = self.anchors.get(&anchor).cloned();
                let meant = meant.ok_or("an alias stands for a value that contains it")?;
                if self.json.len() + meant.len() > self.bounds.bytes {
                    return Err(self.too_large());
                }
                // Line breaks are only between tokens: texts have them escaped.
                let copy: String = self.json[meant].split('\n').collect();
                self.json.push_str(&copy);
                self.complete(0, start);
            }
            Event::SequenceStart(anchor, tag) => self.open('[', anchor, line, tag.as_deref())?,
            Event::MappingStart(anchor, tag) => self.open('{', anchor, line, tag.as_deref())?,
            Event::SequenceEnd | Event::MappingEnd => {
                let level = self.levels.pop().ok_or("a list or an object ends that has not begun")?;
                self.json.push(if level.next.is_some() { '}' } else { ']' });
                self.complete(level.anchor, level.start);
            }
        }
        if self.json.len() > self.bounds.bytes { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> String {
        format!("with its aliases the document is larger than the maximum of {} bytes", self.bounds.bytes)
    }

    fn next(&self) -> Option<Next> {
        self.levels.last()?.next
    }

    /// Writes what stands before a token. Only a scalar can be a key.
    fn begin(&mut self, line: usize, scalar: Option<Scalar<'_>>) -> Result<usize, String> {
        let next = self.next();
        if next == Some(Next::Key) && scalar.is_none() {
            return Err("a name must be a text: not an alias, a list or an object".to_owned());
        }
        if let Some(level) = self.levels.last_mut() {
            match next {
                Some(Next::Value) => self.json.push(':'),
                Some(Next::Key) | None if level.is_empty => level.is_empty = false,
                Some(Next::Key) | None => self.json.push(','),
            }
        }
        while self.line < line {
            self.json.push('\n');
            self.line += 1;
        }
        Ok(self.json.len())
    }

    fn open(&mut self, bracket: char, anchor: usize, line: usize, tag: Option<&Tag>) -> Result<(), String> {
        let is_known = tag.is_none_or(|tag| {
            tag.is_yaml_core_schema() && tag.suffix == if bracket == '[' { "seq" } else { "map" }
        });
        if !is_known {
            return Err(unsupported(tag));
        }
        if self.levels.len() >= self.bounds.levels {
            return Err(format!("nested too deeply: at most {} levels are read", self.bounds.levels));
        }
        let start = self.begin(line, None)?;
        self.json.push(bracket);
        let next = (bracket == '{').then_some(Next::Key);
        self.levels.push(Level { anchor, start, is_empty: true, next });
        Ok(())
    }

    /// A token, list or object has been written.
    fn complete(&mut self, anchor: usize, start: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, start..self.json.len());
        }
        if let Some(next) = self.levels.last_mut().and_then(|level| level.next.as_mut()) {
            *next = if *next == Next::Key { Next::Value } else { Next::Key };
        }
    }
}

fn unsupported(tag: Option<&Tag>) -> String {
    let name: String = tag.map(ToString::to_string).unwrap_or_default().chars().take(80).collect();
    format!("the tag {name} is not supported")
}

#[derive(Clone, Copy)]
struct Scalar<'a> {
    text: &'a str,
    is_plain: bool,
}

impl Scalar<'_> {
    fn quoted(self) -> String {
        serde_json::Value::from(self.text).to_string()
    }

    /// As the name of a member. A number is one by its digits.
    fn key(self) -> Result<String, String> {
        match self.text {
            "<<" if self.is_plain => Err(
                "merge keys (<<) are not supported: write the members, or use an alias for the whole value"
                    .to_owned(),
            ),
            "" | "~" | "null" if self.is_plain => Err("a name must be a text: this one is empty".to_owned()),
            _ => Ok(self.quoted()),
        }
    }

    fn value(self, tag: Option<&Tag>) -> Result<String, String> {
        let Some(tag) = tag else {
            return if self.is_plain { self.plain() } else { Ok(self.quoted()) };
        };
        if !tag.is_yaml_core_schema() {
            return Err(unsupported(Some(tag)));
        }
        let value = match tag.suffix.as_str() {
            "str" => return Ok(self.quoted()),
            "null" | "bool" | "int" | "float" => self.plain()?,
            _ => return Err(unsupported(Some(tag))),
        };
        let fits = match tag.suffix.as_str() {
            "null" => value == "null",
            "bool" => matches!(value.as_str(), "true" | "false"),
            "int" => value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
            _ => value.starts_with(|first: char| first.is_ascii_digit() || first == '-'),
        };
        if fits { Ok(value) } else { Err(format!("this value is no {}, as its tag says", tag.suffix)) }
    }

    /// By the core schema of YAML 1.2.
    fn plain(self) -> Result<String, String> {
        match self.text {
            "" | "~" | "null" | "Null" | "NULL" => return Ok("null".to_owned()),
            "true" | "True" | "TRUE" => return Ok("true".to_owned()),
            "false" | "False" | "FALSE" => return Ok("false".to_owned()),
            _ => {}
        }
        let unsigned = self.text.trim_start_matches(['+', '-']);
        if self.text.len() - unsigned.len() > 1 {
            return Ok(self.quoted());
        }
        if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
            return Err("infinity and NaN are not numbers of a document".to_owned());
        }
        for (prefix, radix) in [("0x", 16), ("0o", 8)] {
            let digits = self.text.strip_prefix(prefix);
            if let Some(digits) = digits.filter(|it| !it.is_empty() && it.chars().all(|c| c.is_digit(radix)))
            {
                let number = u64::from_str_radix(digits, radix);
                return number.map(|it| it.to_string()).map_err(|_| "this number is too large".to_owned());
            }
        }
        let Some((whole, fraction, exponent)) = number(unsigned) else { return Ok(self.quoted()) };
        if whole.len() > 1 && whole.starts_with('0') {
            // Readers of YAML 1.1 take it for octal.
            return Err(format!(
                "{} can be read as two numbers: omit the leading zeros, or put it in quotes",
                self.text.chars().take(40).collect::<String>()
            ));
        }
        let sign = if self.text.starts_with('-') { "-" } else { "" };
        let whole = if whole.is_empty() { "0" } else { whole };
        let fraction = match fraction {
            None => String::new(),
            Some("") => ".0".to_owned(),
            Some(digits) => format!(".{digits}"),
        };
        Ok(format!("{sign}{whole}{fraction}{exponent}"))
    }
}

/// The digits before and behind the point, and the exponent with its `e`; none: it is not a number.
fn number(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (mantissa, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    let (whole, fraction) =
        mantissa.split_once('.').map_or((mantissa, None), |(whole, fraction)| (whole, Some(fraction)));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = !(whole.is_empty() && fraction.is_none_or(str::is_empty));
    let power = exponent.get(1..).map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
    let is_power = power.is_none_or(|power| !power.is_empty() && are_digits(power));
    (has_digits && are_digits(whole) && fraction.is_none_or(are_digits) && is_power)
        .then_some((whole, fraction, exponent))
}
