//! Documents about the installation, and figures of rollouts.

use interlock_model::{RolloutId, Timestamp};

use super::rows;
use super::store::Decide;
use super::store::look;
use super::tables::{Changes, Decided, Decision, Pick, Row, Table, View, parse, read, scan_prefix};
use crate::StoreError;
use crate::documents::{Document, MEMBERS_MAX, too_many};
use crate::verbs::{DeleteFigures, ReadDocument, ReadFigures, SaveDocument, SaveFigures};

impl Decide for SaveDocument {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<bool> {
        let name = self.name.as_str();
        self.check()?;
        let before: Option<Document> = read(view, Table::Documents, name)?;
        let (current, next) = (before.as_ref().map_or(0, |document| document.version), self.expected + 1);
        if current != self.expected {
            let is_ours = before.is_some_and(|document| document.text == self.text) && current == next;
            return Ok(Decision::unchanged(is_ours));
        }
        let mut changes = Changes::default();
        changes.put(Table::Documents, name, &Document { version: next, text: self.text.clone() });
        Ok(Decision { answer: true, changes })
    }
}

impl Decide for SaveFigures {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        self.check()?;
        let key = rows::figures(&self.rollout, &self.instance);
        let is_known = view.get(Table::Figures, &key)?.is_some();
        if !is_known && members(view, &self.rollout)?.len() >= MEMBERS_MAX {
            return Err(too_many(&self.rollout));
        }
        let mut changes = Changes::default();
        changes.put(Table::Figures, key, &self.figures);
        Ok(Decision { answer: (), changes })
    }
}

fn members(view: &dyn View, rollout: &RolloutId) -> Result<Vec<Row>, StoreError> {
    scan_prefix(view, Table::Figures, &rows::figures_of(rollout), Pick::First(MEMBERS_MAX))
}

look!(ReadFigures, |verb, view| {
    let mut found = Vec::new();
    for row in members(view, &verb.rollout)? {
        let Ok(instance) = rows::last_part(&row.key).parse() else { continue };
        found.push((instance, parse(Table::Figures, &row.key, &row.value)?));
    }
    Ok(found)
});

impl Decide for DeleteFigures {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let mut changes = Changes::default();
        for row in members(view, &self.rollout)? {
            changes.delete(Table::Figures, row.key);
        }
        Ok(Decision { answer: (), changes })
    }
}

look!(ReadDocument, |verb, view| read(view, Table::Documents, verb.name.as_str()));
