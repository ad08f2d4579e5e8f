//! What walks reach: the verbs that were called, and those that changed something.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::super::inspection::LocalRows;
use crate::local::{Row, Table};

#[derive(Debug, Default)]
pub struct Coverage {
    pub called: BTreeSet<&'static str>,
    /// Those after which the rows of the reference were others than before.
    pub changed: BTreeSet<&'static str>,
}

#[async_trait]
pub(super) trait Observe: Send {
    async fn before(&mut self, writes: bool);
    async fn after(&mut self, verb: &'static str, writes: bool);
}

pub(super) struct Ignored;

#[async_trait]
impl Observe for Ignored {
    async fn before(&mut self, _: bool) {}
    async fn after(&mut self, _: &'static str, _: bool) {}
}

pub(super) struct Observer<'c> {
    coverage: &'c mut Coverage,
    reference: Arc<dyn LocalRows>,
    rows: Vec<Vec<Row>>,
}

impl<'c> Observer<'c> {
    pub(super) fn new(coverage: &'c mut Coverage, reference: Arc<dyn LocalRows>) -> Self {
        Self { coverage, reference, rows: Vec::new() }
    }

    async fn read_rows(&self) -> Vec<Vec<Row>> {
        let mut rows = Vec::with_capacity(Table::ALL.len());
        for table in Table::ALL {
            rows.push(self.reference.raw_rows(*table).await);
        }
        rows
    }
}

#[async_trait]
impl Observe for Observer<'_> {
    async fn before(&mut self, writes: bool) {
        if writes {
            self.rows = self.read_rows().await;
        }
    }

    async fn after(&mut self, verb: &'static str, writes: bool) {
        self.coverage.called.insert(verb);
        if writes && !self.coverage.changed.contains(verb) && self.rows != self.read_rows().await {
            self.coverage.changed.insert(verb);
        }
    }
}
