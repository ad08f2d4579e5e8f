//! The arms of each scenario.

use std::time::Duration;

use interlock_model::retry::{RetryPolicy, Seed};

use super::{LabArm, LabScenario, LabSize, StartLoad, Workload};

/// Delays between two tries of the admission lock.
const ADMISSION_FIXED: RetryPolicy = RetryPolicy::Fixed { delay_ms: 10 };
const ADMISSION_JITTERED: RetryPolicy = RetryPolicy::FullJitter { base_ms: 10, cap_ms: 100 };

/// Delays between two tries of a client.
const CLIENT_FIXED: RetryPolicy = RetryPolicy::Fixed { delay_ms: 100 };
const CLIENT_JITTERED: RetryPolicy = RetryPolicy::FullJitter { base_ms: 50, cap_ms: 1_000 };

const RUNS_MAX: u32 = 2;

/// More tries than any arm has time for.
const TRIES_MAX: u32 = 10_000;

/// A smaller limit would cut arms short on every busy machine.
const LIMIT_MIN: Duration = Duration::from_secs(3);

pub(super) fn of(scenario: LabScenario, size: LabSize) -> Vec<LabArm> {
    match scenario {
        LabScenario::Admission => admission(size),
        LabScenario::RunLock => run_lock(size),
        LabScenario::Locks => locks(size),
        LabScenario::Fairness => fairness(size),
        LabScenario::Idempotency => vec![arm(one_step(), "", Workload::Steps, 300)],
        LabScenario::Budget => budget(size),
    }
}

/// The display name of a server and its flags.
#[derive(Clone)]
struct ServerVariant(String, Vec<String>);

fn server(name: impl Into<String>, flags: &[(&str, &str)]) -> ServerVariant {
    let flags = flags.iter().flat_map(|(flag, value)| [format!("--{flag}"), (*value).to_owned()]);
    ServerVariant(name.into(), flags.collect())
}

/// The default: admission in one step of the store.
fn one_step() -> ServerVariant {
    server("one step", &[])
}

/// Admission under the tenant's lock.
fn admission_lock(retry: RetryPolicy) -> ServerVariant {
    let text = retry.to_string();
    server(format!("lock {text}"), &[("admission-strategy", "lock"), ("admission-retry", &text)])
}

/// An arm that takes about `expected_ms`, and up to three times as long on a busy machine. The plan names it.
fn arm(
    ServerVariant(serving, server): ServerVariant,
    clients: &str,
    work: Workload,
    expected_ms: u64,
) -> LabArm {
    let expected = Duration::from_millis(expected_ms);
    let limit = (expected * 3).max(LIMIT_MIN);
    let (name, clients, seed) = (String::new(), clients.to_owned(), Seed::new(0));
    LabArm { name, server, serving, clients, work, seed, expected, limit }
}

fn admission(size: LabSize) -> Vec<LabArm> {
    let bursts: &[u32] = match size {
        LabSize::Tiny => &[20],
        LabSize::Small => &[100],
        LabSize::Full => &[100, 1_000],
    };
    let mut arms = Vec::new();
    for &starts in bursts {
        for serving in [admission_lock(ADMISSION_FIXED), admission_lock(ADMISSION_JITTERED), one_step()] {
            let is_locked = !serving.1.is_empty();
            let (once_ms, again_ms) = if is_locked { (12, 15) } else { (3, 25) };
            for retry in [None, Some(CLIENT_FIXED), Some(CLIENT_JITTERED)] {
                let (clients, tries_max, expected_ms) = match retry {
                    None => ("no retry".to_owned(), 1, u64::from(starts) * once_ms),
                    Some(policy) => (format!("client {policy}"), TRIES_MAX, u64::from(starts) * again_ms),
                };
                let clients = if bursts.len() > 1 { format!("{clients}, {starts}") } else { clients };
                let work = Workload::Starts(StartLoad { starts, runs_max: RUNS_MAX, retry, tries_max });
                arms.push(arm(serving.clone(), &clients, work, expected_ms));
            }
        }
    }
    arms
}

fn run_lock(size: LabSize) -> Vec<LabArm> {
    // Of the results that are redelivered together, hardly more than one finds the run free.
    let (results, expected_ms) = match size {
        LabSize::Tiny => (5, 2_000),
        LabSize::Small => (8, 3_400),
        LabSize::Full => (100, 50_000),
    };
    let work = Workload::Results { results };
    let mut arms = vec![arm(server("inbox", &[]), "", work.clone(), expected_ms / 20)];
    for retry in [
        RetryPolicy::Fixed { delay_ms: 500 },
        RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 },
        RetryPolicy::FullJitter { base_ms: 500, cap_ms: 5_000 },
    ] {
        let text = retry.to_string();
        // Without a wait, the server defers every result that meets a busy run.
        let flags = [("run-strategy", "lock"), ("lock-busy-retry", &text), ("lock-busy-max-wait-ms", "0")];
        arms.push(arm(server(format!("lock {text}"), &flags), "", work.clone(), expected_ms));
    }
    arms
}

fn locks(size: LabSize) -> Vec<LabArm> {
    let (contenders, expected_ms) = match size {
        LabSize::Tiny => (10, 500),
        LabSize::Small => (30, 700),
        LabSize::Full => (500, 15_000),
    };
    let variant = |poll: Option<RetryPolicy>| {
        let clients = poll.map_or("queue (wait_ms)".to_owned(), |policy| format!("poll {policy}"));
        arm(server("", &[]), &clients, Workload::Locks { contenders, hold_ms: 5, poll }, expected_ms)
    };
    vec![
        variant(None),
        variant(Some(RetryPolicy::Fixed { delay_ms: 10 })),
        variant(Some(RetryPolicy::FullJitter { base_ms: 10, cap_ms: 100 })),
    ]
}

fn fairness(size: LabSize) -> Vec<LabArm> {
    let (probes, storm_per_second, expected_ms) = match size {
        LabSize::Tiny => (10, 100, 300),
        LabSize::Small => (30, 300, 500),
        LabSize::Full => (500, 300, 15_000),
    };
    let mut arms = Vec::new();
    for serving in [admission_lock(ADMISSION_FIXED), one_step()] {
        for (clients, storm_per_second) in [("alone", 0), ("beside a burst", storm_per_second)] {
            let work = Workload::Probes { probes, storm_per_second };
            arms.push(arm(serving.clone(), clients, work, expected_ms));
        }
    }
    arms
}

fn budget(size: LabSize) -> Vec<LabArm> {
    let starts = match size {
        LabSize::Tiny => 10,
        LabSize::Small => 20,
        LabSize::Full => 300,
    };
    let mut arms = Vec::new();
    for max_wait_ms in [100, 500, 2_000] {
        let ServerVariant(_, mut flags) = admission_lock(ADMISSION_FIXED);
        flags.extend(["--admission-max-wait-ms".to_owned(), max_wait_ms.to_string()]);
        let serving = ServerVariant(format!("max wait {max_wait_ms} ms"), flags);
        for (tries_max, clients) in [(1, "1 try"), (2, "2 tries"), (4, "4 tries")] {
            let retry = (tries_max > 1).then_some(CLIENT_JITTERED);
            // The cap is never reached here: a refused start has waited too long for the lock.
            let work = Workload::Starts(StartLoad { starts, runs_max: starts, retry, tries_max });
            arms.push(arm(serving.clone(), clients, work, u64::from(starts) * 15));
        }
    }
    arms
}
