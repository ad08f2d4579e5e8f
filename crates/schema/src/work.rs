//! How much work a check is, at most, computed before the check.
//!
//! The validator visits a part of the schema once for each way that leads to it: a small schema of nested alternatives has
//! millions of ways. The bound adds them up without walking them, once for each part (and value) that they meet at.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Parts of a schema that one value may be inside of at once. The validator and the compiler recurse that deep.
pub(crate) const DEPTH_MAX: usize = 400;

/// Pairs of a part and a value that the bound itself may look at.
const PAIRS_MAX: usize = 200_000;

/// Why there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unbounded {
    #[error("refers to itself without going to a part of the value")]
    Endless,
    #[error("is nested more than {DEPTH_MAX} levels deep, references included")]
    TooDeep,
    #[error("has too many parts for this value")]
    TooMany,
    #[error("has a reference that is not in the schema: use #, #/path/to/part or #anchor")]
    Outside,
}

/// Keywords whose value is one schema for the same value, and for all parts of it.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
const SAME_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
const OF_PROPERTIES: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "propertyNames"];
const OF_ITEMS: [&str; 4] = ["items", "additionalItems", "unevaluatedItems", "contains"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The validator finds out what is unevaluated by visiting everything else again.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
const UNEVALUATED_FACTOR: u64 = 3;

/// Visits that matching one byte with one pattern counts for. In the worst case the engine tries every state of the pattern.
const MATCHED_VISITS: u64 = 2;

/// The most that a part of the schema costs for a value with all its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) visits: u64,
    height: usize,
}

/// A schema as the bound reads it.
pub(crate) struct Work<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    /// The bound of a pair, or none while it is being computed.
    known: HashMap<(usize, usize), Option<Bound>>,
    is_recursive: bool,
}

impl<'a> Work<'a> {
    pub(crate) fn of(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        collect_anchors(root, &mut anchors);
        Self { root, anchors, known: HashMap::new(), is_recursive: false }
    }

    /// The most visits for each part of any value, or none if that depends on how deep the value is.
    pub(crate) fn expansion(&mut self) -> Result<Option<u64>, Unbounded> {
        let bound = self.bound(self.root, Target::Anything, 0)?;
        Ok(Some(bound.visits).filter(|_| !self.is_recursive))
    }

    /// The most visits for this value with all its parts.
    pub(crate) fn visits(&mut self, value: &'a Value) -> Result<u64, Unbounded> {
        Ok(self.bound(self.root, Target::Value(value), 0)?.visits)
    }

    fn bound(&mut self, schema: &'a Value, target: Target<'a>, depth: usize) -> Result<Bound, Unbounded> {
        let Value::Object(keywords) = schema else { return Ok(Bound { visits: 1, height: 1 }) };
        let pair = (address(schema), target.address());
        match (self.known.get(&pair), target) {
            (Some(Some(known)), _) => return Ok(*known),
            (Some(None), Target::Value(_)) => return Err(Unbounded::Endless),
            (Some(None), Target::Anything) => {
                self.is_recursive = true;
                return Ok(Bound::default());
            }
            (None, _) if depth > DEPTH_MAX => return Err(Unbounded::TooDeep),
            (None, _) if self.known.len() >= PAIRS_MAX => return Err(Unbounded::TooMany),
            (None, _) => {}
        }
        self.known.insert(pair, None);
        let own = 1 + keywords.len() as u64 + listed(keywords);
        let mut bound = Bound { visits: own.saturating_add(matched(keywords, target)), height: 0 };
        let same = self.same(keywords)?.into_iter().map(|part| (part, target));
        for (part, target) in same.chain(children(keywords, target)) {
            let part = self.bound(part, target, depth + 1)?;
            bound.visits = bound.visits.saturating_add(part.visits);
            bound.height = bound.height.max(part.height);
        }
        if UNEVALUATED.iter().any(|keyword| keywords.contains_key(*keyword)) {
            bound.visits = bound.visits.saturating_mul(UNEVALUATED_FACTOR);
        }
        bound.height += 1;
        if bound.height > DEPTH_MAX {
            return Err(Unbounded::TooDeep);
        }
        self.known.insert(pair, Some(bound));
        Ok(bound)
    }

    /// The parts that are checked against the same value.
    fn same(&self, keywords: &'a Map<String, Value>) -> Result<Vec<&'a Value>, Unbounded> {
        let mut parts: Vec<&Value> = SAME.iter().filter_map(|keyword| keywords.get(*keyword)).collect();
        let lists = SAME_LISTS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_array());
        parts.extend(lists.flatten());
        let maps = SAME_MAPS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_object());
        parts.extend(maps.flat_map(Map::values));
        let references = REFERENCES.iter().filter_map(|keyword| keywords.get(*keyword)?.as_str());
        for reference in references {
            parts.push(self.resolve(reference).ok_or(Unbounded::Outside)?);
        }
        Ok(parts)
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&percent_decoded(fragment)?)
        } else {
            self.anchors.get(fragment).copied()
        }
    }
}

/// What a schema is checked against.
#[derive(Clone, Copy)]
enum Target<'a> {
    Value(&'a Value),
    /// Any value, with one property and one item of every kind.
    Anything,
}

impl Target<'_> {
    fn address(self) -> usize {
        match self {
            Self::Value(value) => address(value),
            Self::Anything => 0,
        }
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// The parts that are checked against parts of the value, with these.
fn children<'a>(keywords: &'a Map<String, Value>, target: Target<'a>) -> Vec<(&'a Value, Target<'a>)> {
    let mut children = Vec::new();
    let objects = OF_PROPERTIES.iter().filter_map(|keyword| keywords.get(*keyword));
    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
    let of_properties: Vec<&Value> = objects.chain(patterns.into_iter().flat_map(Map::values)).collect();
    let properties = keywords.get("properties").and_then(Value::as_object);
    let of_items = OF_ITEMS.iter().filter_map(|keyword| keywords.get(*keyword));
    let (lists, of_items): (Vec<&Value>, Vec<&Value>) = of_items.partition(|part| part.is_array());
    let lists = lists.into_iter().chain(keywords.get("prefixItems")).filter_map(Value::as_array);
    let lists: Vec<&Value> = lists.flatten().collect();
    match target {
        Target::Anything => {
            let all = of_properties.into_iter().chain(properties.into_iter().flat_map(Map::values));
            children.extend(all.chain(of_items).chain(lists).map(|part| (part, target)));
        }
        Target::Value(Value::Object(fields)) => {
            for (name, value) in fields {
                let own = properties.and_then(|properties| properties.get(name));
                let parts = own.into_iter().chain(of_properties.iter().copied());
                children.extend(parts.map(|part| (part, Target::Value(value))));
            }
        }
        Target::Value(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let parts = lists.get(index).into_iter().chain(&of_items);
                children.extend(parts.map(|part| (*part, Target::Value(item))));
            }
        }
        Target::Value(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
    }
    children
}

/// Values that the value is compared with.
fn listed(keywords: &Map<String, Value>) -> u64 {
    keywords.get("enum").and_then(Value::as_array).map_or(0, |values| values.len() as u64)
}

/// What patterns cost for a text, or for the names of an object.
fn matched(keywords: &Map<String, Value>, target: Target<'_>) -> u64 {
    let (texts, bytes) = match target {
        Target::Value(Value::String(text)) => (usize::from(keywords.contains_key("pattern")), text.len()),
        Target::Value(Value::Object(fields)) => {
            let named = keywords.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            let of_names = keywords.get("propertyNames").map_or(0, crate::patterns);
            (named + of_names, fields.keys().map(String::len).sum())
        }
        Target::Value(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_))
        | Target::Anything => (0, 0),
    };
    (texts as u64).saturating_mul(bytes as u64).saturating_mul(MATCHED_VISITS)
}

fn collect_anchors<'a>(schema: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) {
    match schema {
        Value::Object(fields) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = fields.get(keyword).and_then(Value::as_str) {
                    anchors.insert(name, schema);
                }
            }
            fields.values().for_each(|part| collect_anchors(part, anchors));
        }
        Value::Array(items) => items.iter().for_each(|part| collect_anchors(part, anchors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A fragment of a URI as text.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut bytes = fragment.bytes();
    let mut decoded = Vec::with_capacity(fragment.len());
    while let Some(byte) = bytes.next() {
        let digits = if byte == b'%' { Some([bytes.next()?, bytes.next()?]) } else { None };
        decoded.push(match digits {
            Some(digits) => u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?,
            None => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

/// A value and all its parts, counted.
pub(crate) fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Object(fields) => fields.values().map(size).sum(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
