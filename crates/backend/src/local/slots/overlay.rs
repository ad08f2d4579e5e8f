//! Rows that a decision has changed: its later steps see them as they will be.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::draft::Draft;
use super::super::tables::{Pick, Row, Table, end_of, parse, read};
use crate::StoreError;

/// What a decision has changed so far, in tables that it reads again. None: deleted.
#[derive(Debug, Default)]
pub(in super::super) struct Overlay {
    rows: BTreeMap<(Table, String), Option<String>>,
}

impl Draft<'_> {
    pub(super) fn put_seen(&mut self, table: Table, key: String, value: &impl Serialize) {
        let text = serde_json::to_string(value).expect("rows are plain data with text keys");
        self.write_seen(table, key, Some(text));
    }

    pub(super) fn mark_seen(&mut self, table: Table, key: String) {
        self.write_seen(table, key, Some(String::new()));
    }

    pub(super) fn delete_seen(&mut self, table: Table, key: String) {
        self.write_seen(table, key, None);
    }

    fn write_seen(&mut self, table: Table, key: String, value: Option<String>) {
        self.changes.overwrite(table, key.clone(), value.clone());
        self.overlay.rows.insert((table, key), value);
    }

    pub(super) fn get_seen<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &str,
    ) -> Result<Option<T>, StoreError> {
        match self.overlay.rows.get(&(table, key.to_owned())) {
            Some(changed) => changed.as_deref().map(|value| parse(table, key, value)).transpose(),
            None => read(self.view, table, key),
        }
    }

    /// The first rows with `from <= key < until`.
    pub(super) fn scan_seen(
        &self,
        table: Table,
        (from, until): (&str, &str),
        count: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let range = (table, from.to_owned())..(table, until.to_owned());
        let changed: Vec<_> = self.overlay.rows.range(range).collect();
        let fetched = Pick::First(count.saturating_add(changed.len()));
        let stored = self.view.scan(table, from, until, fetched)?;
        let mut rows: BTreeMap<String, String> = stored.into_iter().map(|row| (row.key, row.value)).collect();
        for ((_, key), value) in changed {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        Ok(rows.into_iter().take(count).map(|(key, value)| Row { key, value }).collect())
    }

    /// The first row whose key begins with `prefix`.
    pub(super) fn first_seen(&self, table: Table, prefix: &str) -> Result<Option<Row>, StoreError> {
        Ok(self.scan_seen(table, (prefix, &end_of(prefix)), 1)?.pop())
    }
}
