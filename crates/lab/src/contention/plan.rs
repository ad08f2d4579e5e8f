//! What is measured: scenarios, their arms, and the load of each. The same seed gives the same plan.

mod arms;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use interlock_model::retry::{RetryPolicy, Seed};
use serde::Serialize;

/// A question that the lab answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    Admission,
    RunLock,
    Locks,
    Fairness,
    Idempotency,
    Budget,
}

impl Scenario {
    pub const ALL: [Self; 6] =
        [Self::Admission, Self::RunLock, Self::Locks, Self::Fairness, Self::Idempotency, Self::Budget];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::RunLock => "run-lock",
            Self::Locks => "locks",
            Self::Fairness => "fairness",
            Self::Idempotency => "idempotency",
            Self::Budget => "budget",
        }
    }

    /// What is looked at, in a sentence for people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Admission => "starts of one tenant, all at once, with a cap of 2 runs",
            Self::RunLock => "results for one run, all at once",
            Self::Locks => "contenders for one lock, each holding it for a moment",
            Self::Fairness => {
                "one tenant starts run after run, while another storms, as fast in every arm, or does not"
            }
            Self::Idempotency => {
                "a key that was refused at the cap, used again: the eight steps of the runbook"
            }
            Self::Budget => "how long the server waits for its lock, against how often the client tries",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|scenario| scenario.name() == text);
        known.ok_or_else(|| format!("there is no scenario {text:?}"))
    }
}

/// How much load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// As little as shows the shape.
    Tiny,
    /// Within a minute.
    Small,
    /// Up to a thousand contenders.
    Full,
}

impl Size {
    /// How long everything together may take.
    #[must_use]
    pub fn limit(self) -> Duration {
        match self {
            Self::Tiny | Self::Small => Duration::from_secs(40),
            Self::Full => Duration::from_mins(10),
        }
    }
}

/// What the lab was asked to do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub size: Size,
    pub scenarios: Vec<Scenario>,
    /// How long everything together may take.
    pub limit: Duration,
}

/// What a server is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// For people, such as `lock fixed:10ms`.
    pub name: String,
    /// Flags of `interlock serve`.
    pub flags: Vec<String>,
}

/// One row of a scenario: a server, and a load on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    pub serving: Serving,
    /// What the clients do, for people; empty where there is nothing to choose.
    pub clients: String,
    pub work: Work,
    /// Of everything that is random in this arm.
    pub seed: Seed,
    /// What it takes on a machine that has nothing else to do, about.
    pub expected: Duration,
    /// After this it is cut short, unless its share of the time that is left is more.
    pub limit: Duration,
}

impl Arm {
    #[must_use]
    pub fn name(&self) -> String {
        let parts = [self.serving.name.as_str(), self.clients.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// The load of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// So many starts at once of a tenant that may have `runs_max` runs.
    Starts { starts: u32, runs_max: u32, retry: Option<RetryPolicy>, tries_max: u32 },
    /// So many results at once for one run.
    Results { results: u32 },
    /// So many who want one lock at once.
    Locks { contenders: u32, hold_ms: u64, poll: Option<RetryPolicy> },
    /// One start after the other, while another tenant starts so often, however long its answers take.
    Probes { probes: u32, storm_per_second: u32 },
    /// The runbook of idempotent starts.
    Steps,
}

impl Plan {
    /// The scenarios as they are measured: those whose arms may take much longer than expected come last, and find all
    /// the time that the others did not need.
    #[must_use]
    pub fn course(&self) -> Vec<Scenario> {
        let mut course = self.scenarios.clone();
        course.sort_by_key(|scenario| match scenario {
            Scenario::Locks | Scenario::Fairness | Scenario::Idempotency | Scenario::Budget => 0,
            Scenario::Admission => 1,
            Scenario::RunLock => 2,
        });
        course
    }

    /// The arms of a scenario. On a server that is there, its strategies and tunings are what they are: only what clients
    /// can choose is compared.
    #[must_use]
    pub fn arms(&self, scenario: Scenario, is_there: bool) -> Vec<Arm> {
        let mut arms = arms::of(scenario, self.size);
        if is_there {
            let first = arms.first().map(|arm| arm.serving.clone());
            arms.retain(|arm| Some(&arm.serving) == first.as_ref());
            for arm in &mut arms {
                arm.serving = Serving { name: "as it is served".to_owned(), flags: Vec::new() };
            }
        }
        for arm in &mut arms {
            arm.seed = Seed::of(&format!("lab\n{}\n{scenario}\n{}", self.seed, arm.name()));
        }
        arms
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan { seed, size: Size::Small, scenarios: Scenario::ALL.to_vec(), limit: Size::Small.limit() }
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_seed_other_jitter() {
        for scenario in Scenario::ALL {
            assert_eq!(plan(7).arms(scenario, false), plan(7).arms(scenario, false));
            let seeds =
                |seed| plan(seed).arms(scenario, false).iter().map(|arm| arm.seed).collect::<Vec<_>>();
            assert_ne!(seeds(7), seeds(8), "{scenario}");
        }
    }

    #[test]
    fn no_two_arms_of_a_scenario_share_a_name() {
        for (scenario, is_there) in Scenario::ALL.into_iter().flat_map(|one| [(one, true), (one, false)]) {
            let arms = plan(1).arms(scenario, is_there);
            let names: BTreeSet<_> = arms.iter().map(Arm::name).collect();
            assert_eq!(names.len(), arms.len(), "{scenario}: {names:?}");
            assert!(!arms.is_empty());
        }
    }

    #[test]
    fn on_a_server_that_is_there_no_strategy_is_claimed() {
        for scenario in Scenario::ALL {
            for arm in plan(1).arms(scenario, true) {
                assert_eq!(arm.serving.flags, Vec::<String>::new());
                assert!(
                    !arm.name().contains("lock fixed") && !arm.name().contains("one step"),
                    "{}",
                    arm.name()
                );
            }
        }
    }

    #[test]
    fn starts_are_compared_over_three_strategies_and_three_kinds_of_client() {
        let arms = plan(1).arms(Scenario::Admission, false);
        let strategies: BTreeSet<_> = arms.iter().map(|arm| arm.serving.name.clone()).collect();
        let clients: BTreeSet<_> = arms.iter().map(|arm| arm.clients.clone()).collect();
        assert_eq!((strategies.len(), clients.len(), arms.len()), (3, 3, 9));
        assert!(arms.iter().any(|arm| matches!(arm.work, Work::Starts { starts: 100, runs_max: 2, .. })));
    }

    #[test]
    fn names_of_scenarios_read_back() {
        assert!(Scenario::ALL.iter().all(|scenario| scenario.name().parse() == Ok(*scenario)));
        assert!("nothing".parse::<Scenario>().is_err());
    }
}
