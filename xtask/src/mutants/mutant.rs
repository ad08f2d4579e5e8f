//! A small change of the code that some test must notice.

use std::ops::Range;

/// What a mutated place is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The number by which the mutant is selected, as the condition that it is.
    IsSelected,
    /// This part of the source, with the mutants inside of it.
    Source(Range<usize>),
}

/// A change of one place of one file, guarded by a condition: the code before it stays as the other branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// From the root of the checkout.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The function that it is in, with the type.
    pub(crate) function: String,
    /// What is changed, in one line: `a < b` to `a <= b`.
    pub(crate) change: String,
    /// The place in the source that the pieces replace.
    pub(crate) place: Range<usize>,
    pub(crate) pieces: Vec<Piece>,
}

impl Mutant {
    /// Its name in reports and in the list of equivalent mutants. Without a line number: those move.
    pub(crate) fn name(&self) -> String {
        format!("{} {}: {}", self.file, self.function, self.change)
    }
}

/// A random order that is the same for the same seed: each index with a number to sort by.
pub(crate) fn shuffled(length: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by_key(|index| mixed(seed ^ (*index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    order
}

/// `SplitMix64`: one step of a well-known generator.
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_order_of_all_and_another_seed_another() {
        let mut first = shuffled(1_000, 13);
        assert_eq!(first, shuffled(1_000, 13));
        assert_ne!(first, shuffled(1_000, 14));
        first.sort_unstable();
        assert!(first.into_iter().eq(0..1_000));
    }
}
