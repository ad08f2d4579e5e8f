//! What the lab measures: scenarios, their arms, and the load of each. The same seed gives the same plan.

mod arms;

use std::fmt;
use std::time::Duration;

use interlock_model::retry::{RetryPolicy, Seed};
use serde::Serialize;

interlock_model::named_enum! {
    /// A question that the lab answers.
    #[derive(PartialOrd, Ord)]
    pub enum LabScenario {
        Admission = "admission",
        RunLock = "run-lock",
        Locks = "locks",
        Fairness = "fairness",
        Idempotency = "idempotency",
        Budget = "budget",
    }
}

impl LabScenario {
    /// The load, in one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Admission => "Starts of one tenant, all at once, with a cap of 2 runs",
            Self::RunLock => "Results for one run, all at once",
            Self::Locks => "Contenders for one lock, each holding it briefly",
            Self::Fairness => {
                "One tenant starts runs one by one, alone and beside a tenant that sends a burst"
            }
            Self::Idempotency => {
                "A key that was refused at the cap is used again: the eight steps of the runbook"
            }
            Self::Budget => "How long the server waits for its lock against how often the client tries",
        }
    }
}

impl fmt::Display for LabScenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// How much load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabSize {
    Tiny,
    Small,
    Full,
}

impl LabSize {
    /// The default time limit of the whole lab.
    pub fn limit(self) -> Duration {
        match self {
            Self::Tiny | Self::Small => Duration::from_secs(40),
            Self::Full => Duration::from_mins(10),
        }
    }
}

#[derive(Debug, Clone)]
pub struct LabPlan {
    pub seed: u64,
    pub size: LabSize,
    pub scenarios: Vec<LabScenario>,
    /// The time limit of the whole lab.
    pub limit: Duration,
}

/// One row of a scenario: a server and the load on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabArm {
    /// Of the server and the clients.
    pub name: String,
    /// The flags of its server, defaults excluded.
    pub server: Vec<String>,
    /// The display name of its server, such as `lock fixed:10ms`.
    pub serving: String,
    /// The display name of the clients' behaviour; empty if there is only one.
    #[serde(skip)]
    pub clients: String,
    pub work: Workload,
    /// The source of all randomness in this arm.
    pub seed: Seed,
    /// About how long it takes on an idle machine.
    #[serde(skip)]
    pub expected: Duration,
    /// The arm is cut short after this time, unless its share of the time left is larger.
    #[serde(skip)]
    pub limit: Duration,
}

/// The load of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workload {
    /// Concurrent starts of one tenant.
    Starts(StartLoad),
    /// Concurrent results for one run.
    Results { results: u32 },
    /// Concurrent contenders for one lock. Without a poll policy they wait in the queue.
    Locks { contenders: u32, hold_ms: u64, poll: Option<RetryPolicy> },
    /// Sequential starts of one tenant while another starts runs at a fixed rate.
    Probes { probes: u32, storm_per_second: u32 },
    /// The runbook of idempotent starts.
    Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StartLoad {
    pub starts: u32,
    /// The tenant's cap.
    pub runs_max: u32,
    pub retry: Option<RetryPolicy>,
    pub tries_max: u32,
}

impl LabPlan {
    /// The scenarios in the order of measurement. Those that may take much longer than expected come last, because they
    /// can use the time that the others did not need.
    pub(super) fn run_order(&self) -> Vec<LabScenario> {
        let mut order = self.scenarios.clone();
        order.sort_by_key(|scenario| match scenario {
            LabScenario::Locks | LabScenario::Fairness | LabScenario::Idempotency | LabScenario::Budget => 0,
            LabScenario::Admission => 1,
            LabScenario::RunLock => 2,
        });
        order
    }

    /// The arms of a scenario. The configuration of an existing server is fixed, so there the arms compare clients only.
    pub(super) fn arms(&self, scenario: LabScenario, is_existing: bool) -> Vec<LabArm> {
        let mut arms = arms::of(scenario, self.size);
        if is_existing {
            let first = arms.first().map(|arm| arm.server.clone());
            arms.retain(|arm| Some(&arm.server) == first.as_ref());
        }
        for arm in &mut arms {
            if is_existing {
                (arm.serving, arm.server) = ("as configured".to_owned(), Vec::new());
            }
            let parts = [arm.serving.as_str(), arm.clients.as_str()];
            arm.name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
            arm.seed = Seed::of(&format!("lab\n{}\n{scenario}\n{}", self.seed, arm.name));
        }
        arms
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> LabPlan {
        let (size, scenarios) = (LabSize::Small, LabScenario::ALL.to_vec());
        LabPlan { seed, size, scenarios, limit: size.limit() }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_seed_other_jitter() {
        for scenario in LabScenario::ALL {
            assert_eq!(plan(7).arms(scenario, false), plan(7).arms(scenario, false));
            let seeds =
                |seed| plan(seed).arms(scenario, false).iter().map(|arm| arm.seed).collect::<Vec<_>>();
            assert_ne!(seeds(7), seeds(8), "{scenario}");
        }
    }

    #[test]
    fn arm_names_are_unique_within_a_scenario() {
        for (scenario, is_existing) in
            LabScenario::ALL.into_iter().flat_map(|one| [(one, true), (one, false)])
        {
            let arms = plan(1).arms(scenario, is_existing);
            let names: BTreeSet<_> = arms.iter().map(|arm| arm.name.clone()).collect();
            assert_eq!(names.len(), arms.len(), "{scenario}: {names:?}");
            assert!(!arms.is_empty());
        }
    }

    #[test]
    fn arms_on_an_existing_server_name_no_strategy() {
        for scenario in LabScenario::ALL {
            for arm in plan(1).arms(scenario, true) {
                assert_eq!(arm.server, Vec::<String>::new());
                assert!(!arm.name.contains("lock fixed") && !arm.name.contains("one step"), "{}", arm.name);
            }
        }
    }

    #[test]
    fn starts_are_compared_over_three_strategies_and_three_kinds_of_client() {
        let arms = plan(1).arms(LabScenario::Admission, false);
        let strategies: BTreeSet<_> = arms.iter().map(|arm| arm.serving.clone()).collect();
        let clients: BTreeSet<_> = arms.iter().map(|arm| arm.clients.clone()).collect();
        assert_eq!((strategies.len(), clients.len(), arms.len()), (3, 3, 9));
        let is_burst =
            |arm: &LabArm| matches!(arm.work, Workload::Starts(StartLoad { starts: 100, runs_max: 2, .. }));
        assert!(arms.iter().any(is_burst));
    }
}
