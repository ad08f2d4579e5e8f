//! The same seed is the same history, call by call and row by row.

use interlock_simulation::{simulate, trace};

#[test]
fn a_seed_replays_exactly() {
    for seed in (0..2_000).step_by(67) {
        let (first, second) = (simulate(seed, None).unwrap(), simulate(seed, None).unwrap());
        assert_eq!(first, second, "seed {seed} went two ways");
    }
}

#[test]
fn watching_a_seed_does_not_change_it() {
    for seed in [3, 1_414] {
        let (summary, lines) = trace(seed, None);
        assert_eq!(summary.unwrap(), simulate(seed, None).unwrap(), "seed {seed} changes when it is watched");
        assert!(lines.len() > 50, "seed {seed} tells only {} lines", lines.len());
    }
}

#[test]
fn two_seeds_are_two_histories() {
    assert_ne!(simulate(1, None).unwrap().history, simulate(2, None).unwrap().history);
}
