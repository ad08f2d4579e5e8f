//! Rollouts of candidates whose truth is known: results arrive at random, three replicas count what happens to them and save
//! it once a second, and every second the saved figures are judged.

use std::time::Duration;

use interlock_model::Timestamp;
use interlock_model::contention::{
    Arm, Book, Guards, Judgement, Measured, NewRollout, ResultEvent, Rollout, Scope, Share, Signed, Trial,
};
use interlock_model::retry::RetryPolicy;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const REPLICAS: usize = 3;

/// What one result goes through, in milliseconds after its arrival.
pub(crate) struct Life {
    pub(crate) busy_at_ms: Vec<f64>,
    pub(crate) ends_at_ms: f64,
}

/// How results fare under one policy.
pub(crate) type Truth = fn(&mut StdRng) -> Life;

impl Life {
    /// A result that is delivered after each of these delays until one more delivery succeeds.
    pub(crate) fn of_delays(delays_ms: impl IntoIterator<Item = f64>) -> Self {
        let (mut at, mut busy_at_ms) = (0.0, Vec::new());
        for delay in delays_ms {
            busy_at_ms.push(at);
            at += delay;
        }
        Self { busy_at_ms, ends_at_ms: at }
    }

    /// One that finds its run busy at first, and at later deliveries with this chance.
    pub(crate) fn of_chance(
        random: &mut StdRng,
        busy: f64,
        mut delay: impl FnMut(&mut StdRng) -> f64,
    ) -> Self {
        let mut delays = vec![delay(random)];
        while random.random_bool(busy) {
            delays.push(delay(random));
        }
        Self::of_delays(delays)
    }

    /// One whose run becomes free after this time, delivered every so often.
    pub(crate) fn of_free_at(free_at_ms: f64, delay_ms: f64) -> Self {
        let mut delays = vec![delay_ms];
        let mut at = delay_ms;
        while at < free_at_ms && delays.len() < 1_000 {
            delays.push(delay_ms);
            at += delay_ms;
        }
        Self::of_delays(delays)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Promoted,
    /// A guard fired.
    Harmful,
    /// At its end, it was no improvement.
    NoBetter,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    #[expect(dead_code, reason = "shown when a test fails")]
    pub(crate) why: String,
    /// Results of both arms that had arrived by then.
    pub(crate) arrived: usize,
}

pub(crate) struct World {
    pub(crate) control: Truth,
    pub(crate) candidate: Truth,
    pub(crate) results_per_second: f64,
    pub(crate) lasts: Duration,
}

struct Happening {
    at: Duration,
    arrived: Duration,
    arm: Arm,
    event: ResultEvent,
    replica: usize,
}

impl World {
    /// Lets a rollout run until the judge ends it.
    pub(crate) fn run(&self, seed: u64) -> Ended {
        let rollout = self.rollout();
        let (happenings, arrivals) = self.happenings(&mut StdRng::seed_from_u64(seed));
        let mut happenings = happenings.iter().peekable();
        let mut counted: [Measured; REPLICAS] = Default::default();
        let mut saved = counted.clone();
        for second in 1.. {
            // Each replica saves at another moment of the second, and is judged at its end.
            for (replica, earlier_ms) in [(2, 600), (1, 300), (0, 0)] {
                let saves_at = Duration::from_millis(second * 1_000 - earlier_ms);
                while let Some(next) = happenings.next_if(|next| next.at <= saves_at) {
                    counted[next.replica].count(next.arm, next.arrived, &next.event);
                }
                saved[replica].clone_from(&counted[replica]);
            }
            let mut measured = Measured::default();
            for saved in &saved {
                measured.merge(saved);
            }
            let now = Duration::from_secs(second);
            let judged = Trial { rollout: &rollout, measured: &measured, now: Timestamp::ZERO + now }.judge();
            let (ending, why) = match judged {
                Judgement::Continue(_) => continue,
                Judgement::Promote(why) => (Ending::Promoted, why),
                Judgement::RollBack(why) if why.contains("more than") => (Ending::Harmful, why),
                Judgement::RollBack(why) => (Ending::NoBetter, why),
            };
            let arrived = arrivals.iter().filter(|arrived| **arrived <= now).count();
            return Ended { ending, why, arrived };
        }
        unreachable!("a rollout is judged at its end")
    }

    fn rollout(&self) -> Rollout {
        let new = NewRollout {
            id: "one".parse().expect("an id"),
            candidate: RetryPolicy::Fixed { delay_ms: 501 },
            configured: Scope::LockBusy.tuning(),
            share: Share::of_percent(50.0).expect("a half"),
            duration: self.lasts,
            guards: Guards::default(),
        };
        let signed = Signed { by: "ada".to_owned(), at: Timestamp::ZERO, reason: None };
        Book::default().start(new, signed).expect("no other one runs")
    }

    /// Everything that happens, in order, and when results arrive.
    fn happenings(&self, random: &mut StdRng) -> (Vec<Happening>, Vec<Duration>) {
        let (mut happenings, mut arrivals, mut at) = (Vec::new(), Vec::new(), 0.0);
        while at < self.lasts.as_secs_f64() {
            at -= random.random_range(f64::EPSILON..1.0).ln() / self.results_per_second;
            let arrived = Duration::from_secs_f64(at);
            arrivals.push(arrived);
            let (arm, truth) = if random.random_bool(0.5) {
                (Arm::Candidate, self.candidate)
            } else {
                (Arm::Control, self.control)
            };
            let life = truth(random);
            let ends = ResultEvent::Settled {
                attempt: u32::try_from(life.busy_at_ms.len()).expect("few deliveries") + 1,
                waited: milliseconds(life.ends_at_ms),
                took: milliseconds(life.ends_at_ms + 2.0),
            };
            let until = life.busy_at_ms.iter().skip(1).chain([&life.ends_at_ms]);
            let busy = (1..).zip(life.busy_at_ms.iter().zip(until)).map(|(attempt, (from, until))| {
                let (waited, delay) = (milliseconds(*from), milliseconds(until - from));
                ResultEvent::Busy { attempt, waited, delay }
            });
            for event in busy.chain([ends]) {
                let (at, replica) = (arrived + event.age(), random.random_range(0..REPLICAS));
                happenings.push(Happening { at, arrived, arm, event, replica });
            }
        }
        happenings.sort_by_key(|happening| happening.at);
        (happenings, arrivals)
    }
}

fn milliseconds(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1_000.0)
}
