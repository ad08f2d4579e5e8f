//! The tables of the in-memory store, watched: the checker sees every row before it is applied.

use std::sync::Arc;

use interlock_backend::StoreError;
use interlock_backend::local::{Changes, Decide, Decision, Executor, Pick, Table, View};
use interlock_backend::memory::{self, MemoryStore};
use interlock_model::{Clock, Timestamp};
use serde_json::value::RawValue;

use crate::checker::{Shared, Write};

pub(crate) struct WatchedTables {
    memory: MemoryStore,
    checker: Shared,
}

impl WatchedTables {
    pub(crate) fn new(clock: Arc<dyn Clock>, checker: Shared) -> Self {
        Self { memory: memory::store(clock), checker }
    }

    /// The keys of a whole table.
    pub(crate) async fn keys(&self, table: Table) -> Result<Vec<String>, StoreError> {
        let look = move |view: &dyn View, _| view.scan(table, "", "~", Pick::First(usize::MAX));
        let rows = self.memory.tables().read("look at a table", look).await?;
        Ok(rows.into_iter().map(|row| row.key).collect())
    }
}

impl Executor for WatchedTables {
    async fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let checker = self.checker.clone();
        let watched = move |view: &dyn View, now| {
            let decided = decide(view, now);
            let writes = decided.map(|Decision { answer, changes }| (answer, changes.into_writes()));
            checker
                .with(|checker| checker.rows_written(action, writes.as_ref().map_or(&[], |(_, rows)| rows)));
            writes.map(|(answer, writes)| Decision { answer, changes: changes(writes) })
        };
        self.memory.tables().write(action, watched).await
    }

    async fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.memory.tables().read(action, look).await
    }

    fn peek<V: Decide>(&self, verb: &V) -> Option<V::Answer> {
        self.memory.tables().peek(verb)
    }
}

/// The writes as changes again.
pub(crate) fn changes(writes: Vec<Write>) -> Changes {
    let mut changes = Changes::default();
    for (table, key, value) in writes {
        match value {
            None => changes.delete(table, key),
            Some(value) if value.is_empty() => changes.mark(table, key),
            Some(value) => {
                let raw = RawValue::from_string(value).expect("a row was written as JSON");
                changes.put(table, key, &raw);
            }
        }
    }
    changes
}
