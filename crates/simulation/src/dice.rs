//! Choices. Every actor has dice of its own, so that one more throw here changes nothing there.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Who throws. The numbers of two actors never meet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Actor {
    Scenario,
    Line { slot: usize, start: u64 },
    Ids { slot: usize, start: u64 },
    Crashes,
    Bus,
    Worker(usize),
    Client(usize),
    Locker(usize),
    RunStrategy,
    Limits,
    LimitClient(usize),
    Spender(usize),
    Children,
    Sender(usize),
}

pub(crate) struct Dice {
    random: ChaCha8Rng,
}

impl Actor {
    /// A seed of its own for this actor under `seed`.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        let (kind, number) = match self {
            Self::Scenario => (1, 0),
            Self::Line { slot, start } => (2, slot as u64 * 1_000 + start),
            Self::Ids { slot, start } => (3, slot as u64 * 1_000 + start),
            Self::Crashes => (4, 0),
            Self::Bus => (5, 0),
            Self::Worker(number) => (6, number as u64),
            Self::Client(number) => (7, number as u64),
            Self::Locker(number) => (8, number as u64),
            Self::RunStrategy => (9, 0),
            Self::Limits => (10, 0),
            Self::LimitClient(number) => (11, number as u64),
            Self::Spender(number) => (12, number as u64),
            Self::Children => (13, 0),
            Self::Sender(number) => (14, number as u64),
        };
        scatter(scatter(seed) ^ scatter(kind * 1_000_000 + number))
    }
}

/// The finaliser of `SplitMix64`: neighbouring numbers become unrelated ones.
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Dice {
    pub(crate) fn of(actor: Actor, seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(actor.seed(seed)) }
    }

    /// True with a chance of `chance` percent.
    pub(crate) fn percent(&mut self, chance: u32) -> bool {
        self.random.random_range(0..100) < chance
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end.max(1))
    }

    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        self.random.random_range(low..=high)
    }

    pub(crate) fn millis(&mut self, low: u32, high: u32) -> Duration {
        Duration::from_millis(self.between(low, high).into())
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// One of the choices, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, first: T, others: &[(u32, T)], total: u32) -> T {
        let mut thrown = self.random.random_range(0..total);
        for (weight, choice) in others {
            if thrown < *weight {
                return *choice;
            }
            thrown -= weight;
        }
        first
    }
}
