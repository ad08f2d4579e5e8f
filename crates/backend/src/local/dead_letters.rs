//! Dead letters.

use std::collections::BTreeSet;

use interlock_model::Timestamp;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::run::InboxEvent;

use super::draft::Draft;
use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Pick, Table, View, newest_page, read};
use super::{inbox, rows, slots};
use crate::dead_letters::{DROPPED_AT_ONCE_MAX, DeadLetterCount, DeadLetterRetry};
use crate::verbs::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, ListDeadLetters, ReadDeadLetter, RetryDeadLetter,
};
use crate::{Page, StoreError};

impl Draft<'_> {
    /// Saves the dead letters. Of more than the tenant may have, those of the oldest runs make room.
    pub(super) fn add_dead_letters(&mut self, added: &[DeadLetter], max: u32) -> Result<(), StoreError> {
        if added.is_empty() {
            return Ok(());
        }
        let mut own = BTreeSet::new();
        for dead_letter in added {
            let key = rows::job(self.id, &dead_letter.job);
            self.put(Table::DeadLetters, key.clone(), dead_letter);
            if own.insert(key.clone()) && !self.has(Table::DeadLetters, &key)? {
                self.tenant()?.dead_letters += 1;
            }
        }
        let over = self.tenant()?.dead_letters.saturating_sub(max).min(DROPPED_AT_ONCE_MAX);
        let oldest = self.scan_tenant(Table::DeadLetters, Pick::First(over as usize + added.len()))?;
        for row in oldest.into_iter().filter(|row| !own.contains(&row.key)).take(over as usize) {
            self.delete(Table::DeadLetters, row.key);
            let tenant = self.tenant()?;
            tenant.dead_letters -= 1;
            tenant.dead_letters_dropped += 1;
        }
        Ok(())
    }

    /// Removes the dead letter of the job with this key. Returns whether there was one.
    pub(super) fn remove_dead_letter(&mut self, key: &str) -> Result<bool, StoreError> {
        let exists = self.has(Table::DeadLetters, key)?;
        if exists {
            self.delete(Table::DeadLetters, key);
            let tenant = self.tenant()?;
            tenant.dead_letters = tenant.dead_letters.saturating_sub(1);
        }
        Ok(exists)
    }
}

impl Decide for AddDeadLetter {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let mut draft = Draft::new(view, now, &self.tenant);
        draft.add_dead_letters(std::slice::from_ref(&self.dead_letter), self.dead_letters_max)?;
        Ok(draft.answer(()))
    }
}

impl Decide for RetryDeadLetter {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<DeadLetterRetry> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let key = rows::job(&self.tenant, &self.job);
        let dead_letter: Option<DeadLetter> = draft.read(Table::DeadLetters, &key)?;
        let dead_letter = dead_letter.ok_or_else(|| StoreError::not_found("dead letter", &self.job))?;
        match inbox::status(view, &self.tenant, self.job.run)? {
            None => return Ok(Decision::unchanged(DeadLetterRetry::RunGone)),
            Some(status) if status.is_final() => return Ok(Decision::unchanged(DeadLetterRetry::RunEnded)),
            Some(_) => {}
        }
        draft.remove_dead_letter(&key)?;
        let event = InboxEvent::Retry { by: self.by.clone(), letter: Box::new(dead_letter) };
        draft.post(self.job.run, &[event])?;
        Ok(draft.answer(DeadLetterRetry::Posted))
    }
}

impl Decide for DeleteDeadLetter {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let mut draft = Draft::new(view, now, &self.tenant);
        if !draft.remove_dead_letter(&rows::job(&self.tenant, &self.job))? {
            return Err(StoreError::not_found("dead letter", &self.job));
        }
        Ok(draft.answer(()))
    }
}

impl Look for ListDeadLetters {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<DeadLetter>, StoreError> {
        newest_page(view, Table::DeadLetters, &self.tenant, &self.page, |key| {
            read(view, Table::DeadLetters, key)
        })
    }
}

impl Look for CountDeadLetters {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<DeadLetterCount, StoreError> {
        let tenant = slots::tenant(view, &self.tenant)?;
        Ok(DeadLetterCount { kept: tenant.dead_letters, dropped: tenant.dead_letters_dropped })
    }
}

impl Look for ReadDeadLetter {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<DeadLetter>, StoreError> {
        read(view, Table::DeadLetters, &rows::job(&self.tenant, &self.job))
    }
}
