//! The judge of rollouts against candidates whose truth is known, with many seeds. What it says may depend on chance as
//! rarely as the documentation promises.

mod world;

use std::iter;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::world::{Ended, Ending, Life, Truth, World};

const SEEDS: u64 = 200;

/// An equal candidate may be called harmful in one rollout of a hundred.
const FALSE_ALARMS_MAX: usize = 2;

/// Results of both arms within which a candidate that is much worse must be rolled back. To know the tail of one that is
/// heavy takes longer.
const RESULTS_MAX: usize = 1_000;
const HEAVY_RESULTS_MAX: usize = 2_000;

fn ends(control: Truth, candidate: Truth, lasts: Duration) -> Vec<Ended> {
    let world = World { control, candidate, results_per_second: 20.0, lasts };
    (0..SEEDS).map(|seed| world.run(seed)).collect()
}

fn all_are_promoted(control: Truth, candidate: Truth, lasts: Duration) {
    for (seed, ended) in ends(control, candidate, lasts).iter().enumerate() {
        assert_eq!(ended.ending, Ending::Promoted, "seed {seed}: {ended:?}");
    }
}

fn all_are_harmful(control: Truth, candidate: Truth, results_max: usize) {
    for (seed, ended) in ends(control, candidate, LASTING).iter().enumerate() {
        assert_eq!(ended.ending, Ending::Harmful, "seed {seed}: {ended:?}");
        assert!(ended.arrived <= results_max, "seed {seed}: {ended:?}");
    }
}

fn hardly_any_is_harmful(control: Truth, candidate: Truth) {
    let ended = ends(control, candidate, LASTING);
    let alarms: Vec<_> = ended.iter().filter(|ended| ended.ending == Ending::Harmful).collect();
    assert!(alarms.len() <= FALSE_ALARMS_MAX, "{} of {SEEDS}: {alarms:?}", alarms.len());
}

const A_MINUTE: Duration = Duration::from_mins(1);
const LASTING: Duration = Duration::from_mins(2);

fn fixed_500(random: &mut StdRng) -> Life {
    Life::of_chance(random, 0.7, |_| 500.0)
}

/// `fixed:500ms`, as it was measured from outside: 4.52 retries per result, 95 % within 7.5 s.
fn measured_fixed(random: &mut StdRng) -> Life {
    Life::of_chance(random, 3.52 / 4.52, |_| 500.0)
}

/// `bounded_jitter:2000ms:50%`, as it was measured from outside: 1.17 retries per result, 95 % within 5 s.
fn measured_jitter(random: &mut StdRng) -> Life {
    Life::of_chance(random, 0.17 / 1.17, |random| random.random_range(1_000.0..3_000.0))
}

/// Retries per result, and the time that 95 % end within.
fn alone(truth: Truth) -> (f64, f64) {
    let mut random = StdRng::seed_from_u64(7);
    let lives: Vec<Life> = (0..100_000).map(|_| truth(&mut random)).collect();
    let retries: f64 = lives.iter().flat_map(|life| &life.busy_at_ms).map(|_| 1.0).sum();
    let mut ends: Vec<f64> = lives.iter().map(|life| life.ends_at_ms).collect();
    ends.sort_by(f64::total_cmp);
    (retries / 100_000.0, ends[95_000])
}

#[test]
fn the_candidate_that_helped_and_was_rolled_back_is_promoted() {
    let (control, candidate) = (alone(measured_fixed), alone(measured_jitter));
    assert!((control.0 - 4.52).abs() < 0.05 && (5_000.0..7_500.0).contains(&control.1), "{control:?}");
    assert!((candidate.0 - 1.17).abs() < 0.05 && (3_000.0..5_000.0).contains(&candidate.1), "{candidate:?}");
    all_are_promoted(measured_fixed, measured_jitter, A_MINUTE);
    // It was rolled back after a second, by many results that had all just come.
    let burst = World {
        control: measured_fixed,
        candidate: measured_jitter,
        results_per_second: 400.0,
        lasts: Duration::from_secs(20),
    };
    for seed in 0..SEEDS {
        let ended = burst.run(seed);
        assert_eq!(ended.ending, Ending::Promoted, "seed {seed}: {ended:?}");
    }
}

#[test]
fn a_better_candidate_is_promoted() {
    all_are_promoted(fixed_500, |random| Life::of_chance(random, 0.4, |_| 500.0), A_MINUTE);
}

#[test]
fn a_candidate_whose_results_come_late_at_first_but_sooner_in_the_end_is_promoted() {
    // The control ends most at once and some very late; the candidate ends all after four seconds.
    let control: Truth = |random| {
        let busy = if random.random_bool(0.8) { 1.0 } else { random.random_range(20_000.0..40_000.0) };
        Life::of_free_at(busy, 500.0)
    };
    all_are_promoted(control, |random| Life::of_delays([random.random_range(3_000.0..5_000.0)]), LASTING);
}

#[test]
fn a_candidate_that_spends_its_retries_early_is_promoted() {
    let control: Truth = |_| Life::of_delays([600.0; 6]);
    all_are_promoted(control, |_| Life::of_delays([50.0, 50.0, 50.0, 50.0, 2_500.0]), A_MINUTE);
}

#[test]
fn a_candidate_that_takes_much_longer_is_rolled_back_soon() {
    all_are_harmful(|_| Life::of_free_at(400.0, 500.0), |_| Life::of_free_at(400.0, 5_000.0), RESULTS_MAX);
    all_are_harmful(
        |random| Life::of_chance(random, 0.3, |_| 500.0),
        |random| Life::of_chance(random, 0.8, |_| 500.0),
        RESULTS_MAX,
    );
}

#[test]
fn a_candidate_whose_late_results_are_all_outstanding_is_rolled_back_soon() {
    // Of the candidate's results, one in five waits for a minute, and most others hardly.
    let candidate: Truth = |random| {
        let second = random.random_bool(0.2).then_some(60_000.0);
        Life::of_delays(iter::once(100.0).chain(second))
    };
    all_are_harmful(|_| Life::of_free_at(900.0, 500.0), candidate, RESULTS_MAX);
}

#[test]
fn a_candidate_that_retries_much_more_is_rolled_back_soon() {
    all_are_harmful(|_| Life::of_free_at(900.0, 500.0), |_| Life::of_free_at(900.0, 100.0), RESULTS_MAX);
}

#[test]
fn a_candidate_that_is_a_little_worse_is_not_promoted() {
    let worse: Truth = |random| Life::of_chance(random, 0.78, |_| 500.0);
    for (seed, ended) in ends(fixed_500, worse, LASTING).iter().enumerate() {
        assert_ne!(ended.ending, Ending::Promoted, "seed {seed}: {ended:?}");
    }
}

#[test]
fn an_equal_candidate_is_hardly_ever_called_harmful() {
    hardly_any_is_harmful(fixed_500, fixed_500);
    hardly_any_is_harmful(measured_fixed, measured_fixed);
}

/// A run that is busy for a time without a finite variance, and hardly with a mean.
fn pareto(random: &mut StdRng, scale_ms: f64) -> Life {
    let free_at: f64 = scale_ms / random.random_range(1e-6_f64..1.0).powf(1.0 / 1.1);
    Life::of_free_at(free_at.min(600_000.0), 500.0)
}

#[test]
fn heavy_tails_are_judged_like_any_other() {
    hardly_any_is_harmful(|random| pareto(random, 300.0), |random| pareto(random, 300.0));
    all_are_harmful(|random| pareto(random, 300.0), |random| pareto(random, 3_000.0), HEAVY_RESULTS_MAX);
    all_are_promoted(|random| pareto(random, 3_000.0), |random| pareto(random, 300.0), LASTING);
}
