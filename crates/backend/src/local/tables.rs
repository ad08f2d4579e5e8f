//! How a decision reads and changes tables of text.

use std::future::Future;

use interlock_model::{TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows;
use super::store::Decide;
pub(super) use super::table::Table;
use crate::{Page, PageRequest, StoreError};

/// Which rows of a range, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// At most this many from the beginning, in order.
    First(usize),
    /// At most this many from the end, backwards.
    Last(usize),
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub value: String,
}

/// The tables as they are at one moment.
pub trait View {
    fn get(&self, table: Table, key: &str) -> Result<Option<String>, StoreError>;

    /// Rows with `from <= key < until`.
    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError>;
}

/// What a decision wants written, in order. A key that is written twice keeps the last value.
#[derive(Debug, Default)]
pub struct Changes {
    writes: Vec<(Table, String, Option<String>)>,
}

impl Changes {
    pub fn put(&mut self, table: Table, key: impl Into<String>, value: &impl Serialize) {
        let value = serde_json::to_string(value).expect("rows are plain data with text keys");
        self.writes.push((table, key.into(), Some(value)));
    }

    /// Writes a row without a value.
    pub fn mark(&mut self, table: Table, key: impl Into<String>) {
        self.writes.push((table, key.into(), Some(String::new())));
    }

    pub fn delete(&mut self, table: Table, key: impl Into<String>) {
        self.writes.push((table, key.into(), None));
    }

    /// Writes a row as text, or deletes it.
    pub(crate) fn overwrite(&mut self, table: Table, key: String, value: Option<String>) {
        self.writes.push((table, key, value));
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes, in order: table, key, and the value, or none to delete the row.
    pub fn into_writes(self) -> Vec<(Table, String, Option<String>)> {
        self.writes
    }
}

/// An answer, and what must be written for it to be true.
#[derive(Debug)]
pub struct Decision<R> {
    pub answer: R,
    pub changes: Changes,
}

/// What comes of deciding a verb.
pub type Decided<R> = Result<Decision<R>, StoreError>;

impl<R> Decision<R> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: R) -> Self {
        Self { answer, changes: Changes::default() }
    }

    /// The same decision with its answer turned into something else.
    pub fn map<T>(self, turn: impl FnOnce(R) -> T) -> Decision<T> {
        Decision { answer: turn(self.answer), changes: self.changes }
    }
}

/// Keeps tables and runs decisions on them, one after the other.
pub trait Executor: Send + Sync + 'static {
    /// Runs `decide` on the latest tables and applies its changes, durably, before it answers. An error changes
    /// nothing.
    fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Decided<R> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Looks at tables that are at least as new as every answer given before.
    fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Decides `verb` at once on what is held in memory. No answer if that is not enough, or if the decision would
    /// change something; then [`write`](Self::write) decides.
    fn peek<V: Decide>(&self, verb: &V) -> Option<V::Answer>;
}

/// Reads and parses one row.
pub(super) fn read<T: DeserializeOwned>(
    view: &dyn View,
    table: Table,
    key: &str,
) -> Result<Option<T>, StoreError> {
    view.get(table, key)?.map(|value| parse(table, key, &value)).transpose()
}

pub(super) fn parse<T: DeserializeOwned>(table: Table, key: &str, value: &str) -> Result<T, StoreError> {
    serde_json::from_str(value).map_err(|error| StoreError::Damaged {
        table: table.name(),
        key: key.to_owned(),
        reason: error.to_string(),
    })
}

/// The rows whose keys begin with `prefix`, which ends in '/'.
pub(super) fn scan_prefix(
    view: &dyn View,
    table: Table,
    prefix: &str,
    pick: Pick,
) -> Result<Vec<Row>, StoreError> {
    view.scan(table, prefix, &end_of(prefix), pick)
}

/// The first key after all that begin with `prefix`.
pub(super) fn end_of(prefix: &str) -> String {
    let stem = prefix.strip_suffix('/').expect("prefixes end in a separator");
    // '0' is the character after '/'.
    format!("{stem}0")
}

/// The number at the end of the last key that begins with `prefix`; 0 if there is none.
pub(super) fn last_number(view: &dyn View, table: Table, prefix: &str) -> Result<u64, StoreError> {
    let last = scan_prefix(view, table, prefix, Pick::Last(1))?;
    Ok(last.first().and_then(|row| rows::last_part(&row.key).parse().ok()).unwrap_or(0))
}

/// A page of the items of a tenant's rows, from the last row to the first. It ends after `rows_max` rows, however few
/// items they have.
pub(super) fn newest_page<T>(
    view: &dyn View,
    table: Table,
    (tenant, page): (&TenantId, &PageRequest),
    rows_max: usize,
    item: impl Fn(&Row) -> Result<Option<T>, StoreError>,
) -> Result<Page<T>, StoreError> {
    let from = rows::of_tenant(tenant);
    let until = page.after.as_ref().map_or_else(|| end_of(&from), |after| format!("{from}{after}"));
    let rows = view.scan(table, &from, &until, Pick::Last(rows_max.saturating_add(1)))?;
    let (mut items, mut next) = (Vec::new(), None);
    for (position, row) in rows.iter().enumerate() {
        if items.len() == page.limit || position == rows_max {
            return Ok(Page { items, next });
        }
        next = rows::after_tenant(&row.key).map(str::to_owned);
        items.extend(item(row)?);
    }
    Ok(Page { items, next: None })
}
