//! Random requests: every answer of a backend equals the in-memory reference's.
//!
//! The walk picks verbs from the list of all verbs, so that a verb without a sample does not compile.

mod approvals;
mod budgets;
mod children;
mod coverage;
mod dead_letters;
mod deliveries;
mod documents;
mod events;
mod inspection;
mod jobs;
mod keys;
mod known;
mod last_reads;
mod limits;
mod locks;
mod policy_holds;
mod reconcile;
mod registry;
mod reservations;
mod runs;
mod starts;
mod tenants;
mod workers;
mod workflows;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use interlock_model::Clock;
use interlock_model::limit::Limits;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt, SeedableRng};

pub use coverage::Coverage;
use known::Known;

use super::inspection::{Fixture, LocalRows, Plant, Planted};
use super::scene::{acme, globex};
use super::{OnManualClock, Subject as _};
use crate::clock::ManualClock;
use crate::tenants::LimitScope;
use crate::verb::Verb;
use crate::verbs::SetLimits;
use crate::{Store, StoreError, for_each_verb, memory, verbs};

/// The seeds and the length of the walks that every backend makes.
pub const SEEDS: std::ops::Range<u64> = 0..24;
pub const CALLS: usize = 400;

/// Calls that a mismatch is printed with.
const CALLS_SHOWN: usize = 12;
const CALL_BYTES_SHOWN: usize = 3_000;

/// How the walk comes by requests to a verb.
trait Sampled: Verb {
    /// How often the walk picks it, compared with the others.
    const WEIGHT: u32;

    /// None: the walk has not seen anything yet that it could be about.
    fn sample(walk: &mut Walk) -> Option<Self>;

    /// Remembers what later requests may be about.
    fn learn(&self, _answer: &Self::Answer, _known: &mut Known) {}

    /// The answer of a store, in as many calls as it takes.
    fn answer_of(self, store: &Store) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send {
        store.call(self)
    }

    /// Removes from an answer what the contract leaves to the backend.
    fn comparable(answer: Self::Answer) -> Self::Answer {
        answer
    }
}

/// `sampled!(Verb, weight, |walk| request)`, or with what it teaches: `…, |asked, answer, known| …`.
macro_rules! sampled {
    (
        $verb:ident, $weight:literal, |$walk:ident| $sample:expr
        $(, |$asked:pat_param, $answer:pat_param, $known:ident| $learn:expr)?
    ) => {
        impl $crate::conformance::versus_memory::Sampled for $verb {
            const WEIGHT: u32 = $weight;

            fn sample($walk: &mut $crate::conformance::versus_memory::Walk) -> Option<Self> {
                $sample
            }

            $(fn learn(
                &self,
                $answer: &<Self as $crate::verb::Verb>::Answer,
                $known: &mut $crate::conformance::versus_memory::known::Known,
            ) {
                let $asked = self;
                $learn
            })?
        }
    };
}
use sampled;

/// Two stores that are asked the same, and what is known of what they hold.
struct Walk {
    random: ChaCha8Rng,
    clock: Arc<ManualClock>,
    subject: Store,
    reference: Store,
    known: Known,
    last_calls: VecDeque<String>,
    seed: u64,
}

/// Makes `calls` random calls on the subject and on a fresh reference on the same clock.
pub async fn every_answer_equals_the_references(
    subject: &mut dyn Plant,
    clock: Arc<ManualClock>,
    seed: u64,
    calls: usize,
) {
    let reference = memory_on(&clock);
    walk(subject, reference, clock, (seed, calls), &mut coverage::Ignored).await;
}

/// What the walks of these seeds reach in the reference alone.
pub async fn coverage(seeds: std::ops::Range<u64>, calls: usize) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        let mut subject = OnManualClock::new(open_memory());
        let clock = subject.clock();
        let reference = memory_on(&clock);
        let mut observer = coverage::Observer::new(&mut coverage, reference.local_rows());
        walk(&mut subject, reference, clock, (seed, calls), &mut observer).await;
    }
    coverage
}

type Open = Box<dyn Fn(Arc<dyn Clock>) -> Arc<dyn LocalRows> + Send + Sync>;
type Reference = OnManualClock<Open>;

fn memory_on(clock: &Arc<ManualClock>) -> Reference {
    OnManualClock::on(clock.clone(), open_memory())
}

/// A store that keeps nothing stands for itself when it is opened again.
fn open_memory() -> Open {
    let store = OnceLock::<Arc<dyn LocalRows>>::new();
    Box::new(move |clock| store.get_or_init(|| Arc::new(memory::store(clock))).clone())
}

async fn walk(
    subject: &mut dyn Plant,
    mut reference: Reference,
    clock: Arc<ManualClock>,
    (seed, calls): (u64, usize),
    observer: &mut dyn coverage::Observe,
) {
    let mut walk = Walk {
        random: ChaCha8Rng::seed_from_u64(seed),
        clock,
        subject: subject.store(),
        reference: reference.store(),
        known: Known::default(),
        last_calls: VecDeque::new(),
        seed,
    };
    // Every other walk begins with rows of every kind, some of them broken: repairs need something to repair.
    if seed % 2 == 1 {
        let fixture = Fixture::make(subject).await;
        walk.known.learn_fixture(&Fixture::make(&reference).await);
        for fault in inspection::PLANTED {
            if walk.flip(0.5)
                && let Planted::In(_) = subject.plant(*fault, &fixture).await
            {
                let _ = reference.plant(*fault, &fixture).await;
            }
        }
    }
    // A backend may list a tenant before the first write to it: here both are written to from the beginning.
    for tenant in [acme(), globex()] {
        let set =
            SetLimits { scope: LimitScope::Tenant(tenant), limits: Limits::default(), keeps_quotas: false };
        walk.ask(set).await.expect("limits can be set");
    }
    for _ in 0..calls {
        if walk.random.random_bool(0.04) {
            walk.let_time_pass();
        } else {
            walk.step(observer).await;
        }
    }
    walk.read_everything().await;
}

macro_rules! weigh {
    (() reads { $($read:ident),* } writes { $($write:ident),* }) => {
        const WEIGHTS: &[(&str, u32)] = &[
            $((verbs::$read::NAME, <verbs::$read as Sampled>::WEIGHT),)*
            $((verbs::$write::NAME, <verbs::$write as Sampled>::WEIGHT),)*
        ];
    };
}
for_each_verb!(weigh!());

macro_rules! ask_named {
    (($walk:ident, $name:ident, $observer:ident) reads { $($read:ident),* } writes { $($write:ident),* }) => {
        match $name {
            $(verbs::$read::NAME => $walk.ask_sampled::<verbs::$read>($observer).await,)*
            $(verbs::$write::NAME => $walk.ask_sampled::<verbs::$write>($observer).await,)*
            other => unreachable!("{other} is no verb"),
        }
    };
}

impl Walk {
    async fn step(&mut self, observer: &mut dyn coverage::Observe) {
        let picked = WEIGHTS.choose_weighted(&mut self.random, |(_, weight)| *weight);
        let (name, _) = *picked.expect("the weights are positive");
        for_each_verb!(ask_named!(self, name, observer));
    }

    async fn ask_sampled<V: Sampled>(&mut self, observer: &mut dyn coverage::Observe) {
        let Some(verb) = V::sample(self) else { return };
        observer.before(V::WRITES).await;
        let _ = self.ask(verb).await;
        observer.after(V::NAME, V::WRITES).await;
    }

    /// Asks both stores and compares their answers.
    async fn ask<V: Sampled>(&mut self, verb: V) -> Result<V::Answer, StoreError> {
        let expected = verb.clone().answer_of(&self.reference).await.map(V::comparable);
        let found = verb.clone().answer_of(&self.subject).await.map(V::comparable);
        self.note(format!("{verb:?} -> {expected:?}"));
        let calls = self.last_calls.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(expected == found, "seed {}\n{calls}\nbut the backend answered {found:?}", self.seed);
        if let Ok(answer) = &expected {
            verb.learn(answer, &mut self.known);
        }
        expected
    }

    fn note(&mut self, mut call: String) {
        if self.last_calls.len() == CALLS_SHOWN {
            self.last_calls.pop_front();
        }
        if call.len() > CALL_BYTES_SHOWN {
            call.truncate(call.floor_char_boundary(CALL_BYTES_SHOWN));
        }
        self.last_calls.push_back(call);
    }

    fn let_time_pass(&mut self) {
        let time = self.millis(1..700);
        self.clock.advance(time);
        self.note(format!("{time:?} pass"));
    }

    fn flip(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability)
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    fn one_of<T: Clone>(&mut self, from: &[T]) -> T {
        from.choose(&mut self.random).cloned().expect("there is something to choose from")
    }

    /// Mostly something recent; sometimes something old and stale.
    fn pick<T: Clone>(&mut self, from: impl Fn(&Known) -> &Vec<T>) -> Option<T> {
        let from = from(&self.known);
        let tail = if self.random.random_bool(0.7) { from.len().saturating_sub(4) } else { 0 };
        from[tail..].choose(&mut self.random).cloned()
    }
}
