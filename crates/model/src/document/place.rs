//! Where a place such as `steps.build.input.cases[0]` is in a JSON text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The line of an offset; the first is 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Where the place begins; for a member of an object, its name. None: nothing of the place exists.
pub(super) fn offset(text: &str, place: &str) -> Option<usize> {
    let (mut value, mut rest, mut found) = (text, place, None);
    while let Some((at, inside, left)) = step_into(value, rest) {
        let start = inside.as_ptr().addr() - text.as_ptr().addr();
        // The name may be on a line above its value.
        found = Some(if at == At::Member { name_before(text, start) } else { start });
        (value, rest) = (inside, left);
    }
    found
}

#[derive(PartialEq, Eq)]
enum At {
    Member,
    Item,
}

#[derive(Deserialize)]
struct Members<'a>(#[serde(borrow)] BTreeMap<Cow<'a, str>, &'a RawValue>);

/// The first part of the place in this value, and the rest of the place.
fn step_into<'a, 'b>(value: &'a str, place: &'b str) -> Option<(At, &'a str, &'b str)> {
    let place = place.strip_prefix('.').unwrap_or(place);
    if let Some((index, left)) = place.strip_prefix('[').and_then(|place| place.split_once(']')) {
        let items: Vec<&'a RawValue> = serde_json::from_str(value).ok()?;
        return Some((At::Item, items.get(index.parse::<usize>().ok()?)?.get(), left));
    }
    let Members(members) = serde_json::from_str(value).ok()?;
    // Names may contain dots, so the longest that fits is meant.
    let fits = members.iter().filter_map(|(name, inside)| {
        let left = place.strip_prefix(&**name)?;
        (left.is_empty() || left.starts_with(['.', '['])).then_some((name.len(), inside.get(), left))
    });
    let (_, inside, left) = fits.max_by_key(|(length, ..)| *length)?;
    Some((At::Member, inside, left))
}

/// The end of the member's name, which has its line.
fn name_before(text: &str, start: usize) -> usize {
    text[..start].trim_end().trim_end_matches(':').trim_end().len()
}
