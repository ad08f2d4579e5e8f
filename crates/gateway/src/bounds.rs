//! Bounds on the values in a request.

use crate::error::Refusal;

pub(crate) fn bounded(name: &str, number: u64, (low, high): (u64, u64)) -> Result<(), Refusal> {
    if (low..=high).contains(&number) {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("{name}: {number} is out of bounds; from {low} to {high}")))
    }
}

pub(crate) fn bounded_text(name: &str, text: &str, chars_max: usize) -> Result<(), Refusal> {
    if text.chars().count() <= chars_max {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("{name} is too long: at most {chars_max} characters")))
    }
}
