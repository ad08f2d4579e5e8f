//! The arms of each scenario.

use std::time::Duration;

use interlock_model::retry::{RetryPolicy, Seed};

use super::{Arm, Scenario, Serving, Size, Work};

/// What the documented lock waits between two tries, and what it could.
const ADMISSION_FIXED: RetryPolicy = RetryPolicy::Fixed { delay_ms: 10 };
const ADMISSION_JITTERED: RetryPolicy = RetryPolicy::FullJitter { base_ms: 10, cap_ms: 100 };

/// What clients wait between two tries.
const CLIENT_FIXED: RetryPolicy = RetryPolicy::Fixed { delay_ms: 100 };
const CLIENT_JITTERED: RetryPolicy = RetryPolicy::FullJitter { base_ms: 50, cap_ms: 1_000 };

const RUNS_MAX: u32 = 2;

/// As good as for ever: the time ends it.
const TRIES_MAX: u32 = 10_000;

pub(super) fn of(scenario: Scenario, size: Size) -> Vec<Arm> {
    match scenario {
        Scenario::Admission => admission(size),
        Scenario::RunLock => run_lock(size),
        Scenario::Locks => locks(size),
        Scenario::Fairness => fairness(size),
        Scenario::Idempotency => vec![arm(Serving::default_of("one step"), "", Work::Steps, 300)],
        Scenario::Budget => budget(size),
    }
}

impl Serving {
    fn default_of(name: &str) -> Self {
        Self { name: name.to_owned(), flags: Vec::new() }
    }

    /// Admission under the tenant's lock.
    fn admission_lock(retry: RetryPolicy) -> Self {
        Self {
            name: format!("lock {retry}"),
            flags: flags(&[("admission-strategy", "lock"), ("admission-retry", &retry.to_string())]),
        }
    }

    /// Results under the run's lock, put off at once when it is busy.
    fn run_lock(retry: RetryPolicy) -> Self {
        let retry_text = retry.to_string();
        let chosen = [
            ("run-strategy", "lock"),
            ("lock-busy-retry", retry_text.as_str()),
            ("lock-busy-max-wait-ms", "0"),
        ];
        Self { name: format!("lock {retry}"), flags: flags(&chosen) }
    }
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [format!("--{flag}"), (*value).to_owned()]).collect()
}

/// Less would cut arms short on every machine that is busy.
const LIMIT_MIN: Duration = Duration::from_secs(3);

/// An arm that takes about so many milliseconds. On a machine that is busy it may take three times as long.
fn arm(serving: Serving, clients: &str, work: Work, expected_ms: u64) -> Arm {
    let expected = Duration::from_millis(expected_ms);
    let limit = (expected * 3).max(LIMIT_MIN);
    Arm { serving, clients: clients.to_owned(), work, seed: Seed::new(0), expected, limit }
}

/// The ways to decide starts: the documented one, the same with jitter, ours.
fn strategies() -> [Serving; 3] {
    [
        Serving::admission_lock(ADMISSION_FIXED),
        Serving::admission_lock(ADMISSION_JITTERED),
        Serving::default_of("one step"),
    ]
}

/// A burst is ten times what the tenant usually sends.
fn admission(size: Size) -> Vec<Arm> {
    let bursts: &[u32] = match size {
        Size::Tiny => &[20],
        Size::Small => &[100],
        Size::Full => &[100, 1_000],
    };
    let mut arms = Vec::new();
    for &starts in bursts {
        for serving in strategies() {
            let is_locked = !serving.flags.is_empty();
            let (once_ms, again_ms) = if is_locked { (12, 15) } else { (3, 25) };
            let policies = [None, Some(CLIENT_FIXED), Some(CLIENT_JITTERED)];
            for retry in policies {
                let (clients, tries_max, expected_ms) = match retry {
                    None => ("no retry".to_owned(), 1, u64::from(starts) * once_ms),
                    // Whoever tries again until it is served needs slots to come free.
                    Some(policy) => (format!("client {policy}"), TRIES_MAX, u64::from(starts) * again_ms),
                };
                let clients = if bursts.len() > 1 { format!("{clients}, {starts}") } else { clients };
                let work = Work::Starts { starts, runs_max: RUNS_MAX, retry, tries_max };
                arms.push(arm(serving.clone(), &clients, work, expected_ms));
            }
        }
    }
    arms
}

fn run_lock(size: Size) -> Vec<Arm> {
    // Of those that come again together, hardly more than one finds the run free.
    let (results, expected_ms) = match size {
        Size::Tiny => (5, 2_000),
        Size::Small => (8, 3_400),
        Size::Full => (100, 50_000),
    };
    let inbox = Serving::default_of("inbox");
    let locked = [
        RetryPolicy::Fixed { delay_ms: 500 },
        RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 },
        RetryPolicy::FullJitter { base_ms: 500, cap_ms: 5_000 },
    ]
    .map(Serving::run_lock);
    let all = [inbox].into_iter().chain(locked);
    let expected = |serving: &Serving| if serving.flags.is_empty() { expected_ms / 20 } else { expected_ms };
    all.map(|serving| (expected(&serving), serving))
        .map(|(expected_ms, serving)| arm(serving, "", Work::Results { results }, expected_ms))
        .collect()
}

fn locks(size: Size) -> Vec<Arm> {
    let (contenders, expected_ms) = match size {
        Size::Tiny => (10, 500),
        Size::Small => (30, 700),
        Size::Full => (500, 15_000),
    };
    let work = |poll| Work::Locks { contenders, hold_ms: 5, poll };
    let polling = |poll: RetryPolicy| {
        arm(Serving::default_of(""), &format!("poll {poll}"), work(Some(poll)), expected_ms)
    };
    vec![
        arm(Serving::default_of(""), "in line (wait_ms)", work(None), expected_ms),
        polling(RetryPolicy::Fixed { delay_ms: 10 }),
        polling(RetryPolicy::FullJitter { base_ms: 10, cap_ms: 100 }),
    ]
}

fn fairness(size: Size) -> Vec<Arm> {
    let (probes, storm_per_second, expected_ms) = match size {
        Size::Tiny => (10, 100, 300),
        Size::Small => (30, 300, 500),
        Size::Full => (500, 300, 15_000),
    };
    let mut arms = Vec::new();
    for serving in [Serving::admission_lock(ADMISSION_FIXED), Serving::default_of("one step")] {
        arms.push(arm(serving.clone(), "alone", Work::Probes { probes, storm_per_second: 0 }, expected_ms));
        arms.push(arm(serving, "beside a storm", Work::Probes { probes, storm_per_second }, expected_ms));
    }
    arms
}

/// How long the server may wait for its lock, against how often the client tries.
fn budget(size: Size) -> Vec<Arm> {
    let starts = match size {
        Size::Tiny => 10,
        Size::Small => 20,
        Size::Full => 300,
    };
    let mut arms = Vec::new();
    for max_wait_ms in [100, 500, 2_000] {
        let locked = Serving::admission_lock(ADMISSION_FIXED);
        let more = flags(&[("admission-max-wait-ms", &max_wait_ms.to_string())]);
        let serving = Serving {
            name: format!("max wait {max_wait_ms} ms"),
            flags: locked.flags.into_iter().chain(more).collect(),
        };
        let expected_ms = u64::from(starts) * 15;
        for retries in [0, 1, 3] {
            let retry = (retries > 0).then_some(CLIENT_JITTERED);
            // Nobody meets the cap here: whoever is refused has waited for the lock in vain.
            let work = Work::Starts { starts, runs_max: starts, retry, tries_max: retries + 1 };
            arms.push(arm(serving.clone(), &tries(retries + 1), work, expected_ms));
        }
    }
    arms
}

fn tries(count: u32) -> String {
    format!("{count} {}", if count == 1 { "try" } else { "tries" })
}
