//! The reference: tables in memory, one decision at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use interlock_model::{Clock, Timestamp};

use crate::StoreError;
use crate::local::{Decide, Decision, Executor, LocalStore, Pick, Row, Table, View};

/// A store that forgets everything with its process.
pub type MemoryStore = LocalStore<MemoryTables>;

/// An empty store on this clock.
pub fn store(clock: Arc<dyn Clock>) -> MemoryStore {
    LocalStore::new(MemoryTables { tables: Mutex::default(), clock })
}

#[derive(Debug)]
pub struct MemoryTables {
    tables: Mutex<Tables>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Tables(BTreeMap<Table, BTreeMap<String, String>>);

impl View for Tables {
    fn get(&self, table: Table, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.get(&table).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError> {
        let Some(rows) = self.0.get(&table) else { return Ok(Vec::new()) };
        if from >= until {
            return Ok(Vec::new());
        }
        let range = rows.range::<str, _>((Bound::Included(from), Bound::Excluded(until)));
        let row = |(key, value): (&String, &String)| Row { key: key.clone(), value: value.clone() };
        Ok(match pick {
            Pick::First(limit) => range.map(row).take(limit).collect(),
            Pick::Last(limit) => range.rev().map(row).take(limit).collect(),
        })
    }
}

impl Executor for MemoryTables {
    async fn write<R: Send + 'static>(
        &self,
        _action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let Decision { answer, changes } = decide(&*tables, self.clock.now())?;
        for (table, key, value) in changes.into_writes() {
            let rows = tables.0.entry(table).or_default();
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
        Ok(answer)
    }

    async fn read<R: Send + 'static>(
        &self,
        _action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        look(&*tables, self.clock.now())
    }

    /// A write costs no more here than a look.
    fn peek<V: Decide>(&self, _: &V) -> Option<V::Answer> {
        None
    }
}
