//! Dead letters.

use super::super::tables::Table;
use super::{Checked, Fault, Inspection, Remedy};
use crate::inspection::LETTERS_TOLD_FROM;

pub(super) fn growing(look: &Inspection<'_>) -> Checked {
    let letters = look.count(Table::DeadLetters)?;
    if (letters as usize) < LETTERS_TOLD_FROM {
        return Ok(None);
    }
    let remedy = Remedy::ByHand("only a person can tell which of them are to be tried again");
    Ok(Some(Fault { detail: format!("{letters} dead letters wait for somebody to look at them"), remedy }))
}
