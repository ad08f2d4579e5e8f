//! Rows that cannot be read. The subject is the table and the key.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use super::super::rows;
use super::super::table::Table;
use super::{Checked, Fault, Inspection, Remedy};

/// Why a row with this key and value cannot be read.
pub(in super::super) type RowCheck = fn(&str, &str) -> Option<String>;

/// For rows that are a `V`.
pub(in super::super) fn value<V: DeserializeOwned>(_: &str, value: &str) -> Option<String> {
    serde_json::from_str::<V>(value).err().map(|error| error.to_string())
}

/// For rows whose key ends in a `K`.
pub(in super::super) fn key<K: FromStr<Err: Display>>(key: &str, _: &str) -> Option<String> {
    let part = rows::last_part(key);
    part.parse::<K>().err().map(|error| format!("the key ends in {part:?}: {error}"))
}

pub(in super::super) fn row<K: FromStr<Err: Display>, V: DeserializeOwned>(
    name: &str,
    text: &str,
) -> Option<String> {
    key::<K>(name, text).or_else(|| value::<V>(name, text))
}

pub(super) fn subject(table: Table, key: &str) -> String {
    format!("{}/{key}", table.name())
}

pub(super) fn check(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, key)) = subject.split_once('/') else { return Ok(None) };
    let Some(table) = Table::ALL.iter().copied().find(|table| table.name() == name) else { return Ok(None) };
    let Some(check) = table.row_check() else { return Ok(None) };
    let (from, until) = look.range(table);
    // Another tenant's rows are not checked here.
    if key < from.as_str() || key >= until.as_str() {
        return Ok(None);
    }
    let Some(value) = look.view.get(table, key)? else { return Ok(None) };
    Ok(check(key, &value).map(|reason| Fault {
        detail: format!("the row cannot be read: {reason}"),
        remedy: Remedy::ByHand("what it contained is unknown: it needs a decision by hand"),
    }))
}
