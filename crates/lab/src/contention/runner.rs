//! Runs the arms of a plan one after the other and divides the time between them.

use std::time::{Duration, Instant};

use interlock_api::client::Client;
use interlock_api::status::Strategies;

use super::cleanup;
use super::figures::{ArmFigures, Series};
use super::load::{LoadGenerator, LoadResult};
use super::plan::{LabArm, LabPlan, LabScenario};
use super::report::{ArmReport, ScenarioReport};
use super::target::{LabServer, LabTarget};
use super::{LabError, LabProgress};

/// How long an arm may prepare: save workflows, open connections.
const PREPARATION: Duration = Duration::from_secs(8);

/// How long an arm may run past the time limit of the whole lab.
const GRACE: Duration = Duration::from_secs(2);

/// The usual cost of an arm beyond its load: a server that starts and stops.
const OVERHEAD: Duration = Duration::from_millis(200);

/// An arm with less time than this is not measured.
const SHORTEST: Duration = Duration::from_millis(300);

/// The least an arm gets while time remains, so that a busy machine does not skip arms that take hardly any time.
const FLOOR: Duration = Duration::from_millis(500);

/// The server of the current arm.
struct CurrentServer {
    flags: Vec<String>,
    server: LabServer,
    strategies: Strategies,
}

pub(super) struct LabRunner<'a> {
    plan: &'a LabPlan,
    target: &'a LabTarget<'a>,
    progress: &'a (dyn Fn(LabProgress<'_>) + Sync),
    /// Distinguishes the tenants of this lab from those of other labs on the same store.
    lab_id: String,
    deadline: Instant,
    current: Option<CurrentServer>,
    pub(super) backend: Option<String>,
    arms_done: usize,
    arms: usize,
    tenants: Vec<(Client, String)>,
    pub(super) scenarios: Vec<ScenarioReport>,
    pub(super) left_behind: Vec<String>,
}

impl<'a> LabRunner<'a> {
    pub(super) fn new(
        plan: &'a LabPlan,
        target: &'a LabTarget<'a>,
        progress: &'a (dyn Fn(LabProgress<'_>) + Sync),
    ) -> Self {
        Self {
            plan,
            target,
            progress,
            lab_id: format!("{:08x}", rand::random::<u32>()),
            deadline: Instant::now() + plan.limit,
            current: None,
            backend: None,
            arms_done: 0,
            arms: 0,
            tenants: Vec::new(),
            scenarios: Vec::new(),
            left_behind: Vec::new(),
        }
    }

    pub(super) async fn run(&mut self) -> Result<(), LabError> {
        let arms = |scenario| (scenario, self.plan.arms(scenario, self.target.is_existing()));
        let all: Vec<(LabScenario, Vec<LabArm>)> = self.plan.run_order().into_iter().map(arms).collect();
        self.arms = all.iter().map(|(_, arms)| arms.len()).sum();
        let mut expected: Duration = all.iter().flat_map(|(_, arms)| arms).map(|arm| arm.expected).sum();
        for (scenario, arms) in all {
            let sentence = scenario.sentence();
            self.scenarios.push(ScenarioReport { scenario, sentence, arms: Vec::new() });
            for arm in arms {
                let left = self.deadline.saturating_duration_since(Instant::now());
                let arms_left = u32::try_from(self.arms - self.arms_done).unwrap_or(u32::MAX);
                let limit = time_limit(&arm, left.saturating_sub(OVERHEAD * arms_left), expected);
                expected = expected.saturating_sub(arm.expected);
                let report = self.measure(scenario, &arm, limit).await?;
                self.scenarios.last_mut().expect("a scenario was just added").arms.push(report);
                self.arms_done += 1;
            }
        }
        self.show_progress("cleaning up");
        Ok(())
    }

    /// Cleans up after an interrupted arm and stops the server.
    pub(super) async fn finish(&mut self) {
        self.clean_up().await;
        if let Some(current) = self.current.take() {
            current.server.close().await;
        }
        self.scenarios.sort_by_key(|report| report.scenario);
    }

    fn show_progress(&self, activity: &str) {
        (self.progress)(LabProgress { done: self.arms_done, arms: self.arms, activity });
    }

    async fn measure(
        &mut self,
        scenario: LabScenario,
        arm: &LabArm,
        limit: Duration,
    ) -> Result<ArmReport, LabError> {
        self.show_progress(&format!("{scenario}: {}", arm.name));
        let report = ArmReport::new(arm);
        if limit < SHORTEST.min(arm.limit) {
            return Ok(report.with_note("not measured: out of time"));
        }
        // The first request shows whether the server is reachable and the key is sufficient: its error ends the lab.
        let is_first = self.arms_done == 0;
        let (connection, strategies) = match self.server_for(arm).await {
            Ok(current) => (current.server.connection.clone(), current.strategies.clone()),
            Err(error) if is_first => return Err(error),
            Err(error) => return Ok(report.with_note(format!("not measured: {error}"))),
        };
        let tenant = format!("lab-{}-{}", self.lab_id, self.arms_done);
        let (neighbour, deadline) = (format!("{tenant}-storm"), self.deadline);
        let generator = LoadGenerator { connection, neighbour, tenant, seed: arm.seed, limit, deadline };
        let report = ArmReport { tenant: Some(generator.tenant.clone()), ..report };
        let latest = (Instant::now() + limit + PREPARATION).min(self.deadline + GRACE);
        let result = tokio::time::timeout_at(latest.into(), self.generate(&generator, arm)).await;
        self.clean_up().await;
        match result {
            Err(_) => Ok(report.with_note("not measured: the preparation took too long")),
            Ok(Ok(LoadResult::Trace(trace))) => {
                let mut notes = trace.notes.clone();
                if trace.is_cut {
                    notes.insert(0, format!("cut short after {:.1} s", trace.elapsed.as_secs_f64()));
                }
                if self.target.is_existing() {
                    let Strategies { admission, run } = strategies;
                    notes.push(format!("in force: admission {admission}, results {run}"));
                }
                let (figures, series) = (Some(ArmFigures::of(&trace)), Series::of(&trace));
                Ok(ArmReport { figures, series, notes, ..report })
            }
            Ok(Ok(LoadResult::Steps(steps))) => Ok(ArmReport { steps, ..report }),
            Ok(Err(error)) if is_first => Err(LabError::Api(error)),
            Ok(Err(error)) => Ok(report.with_note(format!("not measured: {error}"))),
        }
    }

    async fn generate(
        &mut self,
        generator: &LoadGenerator,
        arm: &LabArm,
    ) -> interlock_api::client::Result<LoadResult> {
        if self.target.needs_cleanup() {
            // Recorded before anything is created, because a response may be lost.
            for tenant in [&generator.tenant, &generator.neighbour] {
                self.tenants.push((generator.client(tenant)?, tenant.clone()));
            }
        }
        generator.run(&arm.work).await
    }

    async fn clean_up(&mut self) {
        // Removed from the list only afterwards, so that an interrupted cleanup is repeated.
        while let Some((client, tenant)) = self.tenants.last().cloned() {
            self.left_behind.extend(cleanup::delete_tenant(&client, &tenant).await);
            self.tenants.pop();
        }
    }

    /// The server for this arm: that of the previous arm if it has the same flags.
    async fn server_for(&mut self, arm: &LabArm) -> Result<&CurrentServer, LabError> {
        let flags = &arm.server;
        if self.current.as_ref().is_none_or(|current| current.flags != *flags) {
            if let Some(current) = self.current.take() {
                current.server.close().await;
            }
            let server = self.target.open(flags).await.map_err(LabError::Launch)?;
            let status = Client::new(server.connection.clone())?.status().await?;
            self.backend = Some(status.backend.kind);
            self.current =
                Some(CurrentServer { flags: flags.clone(), server, strategies: status.strategies });
        }
        Ok(self.current.as_ref().expect("a server was just opened"))
    }
}

/// How much of the time left an arm may use. It gets its own limit unless that cuts into what later arms expect, but
/// never less than its proportional share or [`FLOOR`]. `all_expected` is the sum for this arm and all later ones.
fn time_limit(arm: &LabArm, left: Duration, all_expected: Duration) -> Duration {
    let later_expected = all_expected.saturating_sub(arm.expected);
    let share = left.mul_f64(arm.expected.as_secs_f64() / all_expected.as_secs_f64().max(f64::MIN_POSITIVE));
    arm.limit.min(left.saturating_sub(later_expected)).max(share).max(FLOOR.min(left))
}

#[cfg(test)]
mod tests {
    use super::super::plan::LabSize;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn arm(expected: Duration, limit: Duration) -> LabArm {
        let plan = LabPlan { seed: 1, size: LabSize::Tiny, scenarios: Vec::new(), limit };
        LabArm { expected, limit, ..plan.arms(LabScenario::Locks, false).remove(0) }
    }

    #[test]
    fn an_arm_with_enough_time_gets_its_own_limit() {
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), 20 * SECOND, 10 * SECOND), 3 * SECOND);
    }

    #[test]
    fn the_last_arm_gets_all_the_time_that_is_left() {
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), 20 * SECOND, SECOND), 20 * SECOND);
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), 40 * SECOND, 10 * SECOND), 4 * SECOND);
    }

    #[test]
    fn a_short_arm_gets_the_floor_while_time_remains() {
        assert_eq!(time_limit(&arm(SECOND / 5, 3 * SECOND), 5 * SECOND, 10 * SECOND), FLOOR);
        assert_eq!(time_limit(&arm(SECOND / 5, 3 * SECOND), SECOND / 10, 10 * SECOND), SECOND / 10);
    }

    /// The arms of a lab of the default size that are cut short if they take the given times.
    fn cut_short(takes: impl Fn(LabScenario, &LabArm) -> Duration) -> Vec<String> {
        let limit = LabSize::Small.limit();
        let plan = LabPlan { seed: 1, size: LabSize::Small, scenarios: LabScenario::ALL.to_vec(), limit };
        let arms = |scenario| plan.arms(scenario, false).into_iter().map(move |arm| (scenario, arm));
        let all: Vec<_> = plan.run_order().into_iter().flat_map(arms).collect();
        let mut expected: Duration = all.iter().map(|(_, arm)| arm.expected).sum();
        let (mut left, mut cut) = (limit, Vec::new());
        for (index, (scenario, arm)) in all.iter().enumerate() {
            let overhead = OVERHEAD * u32::try_from(all.len() - index).unwrap();
            let available = time_limit(arm, left.saturating_sub(overhead), expected);
            let needed = takes(*scenario, arm);
            if available < needed {
                cut.push(format!("{scenario}: {}: {available:?} of {needed:?}", arm.name));
            }
            expected -= arm.expected;
            left = left.saturating_sub(OVERHEAD + available.min(needed));
        }
        cut
    }

    #[test]
    fn the_default_size_has_time_for_everything_that_is_expected() {
        assert_eq!(cut_short(|_, arm| arm.expected), Vec::<String>::new());
    }

    #[test]
    fn slow_arms_get_the_time_that_fast_arms_did_not_need() {
        // Results under a lock take more than twice as long, and everything else half of its time.
        let takes = |scenario, arm: &LabArm| {
            arm.expected.mul_f64(if scenario == LabScenario::RunLock { 2.2 } else { 0.5 })
        };
        assert_eq!(cut_short(takes), Vec::<String>::new());
    }

    #[test]
    fn an_arm_takes_no_time_from_later_arms() {
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), 11 * SECOND, 10 * SECOND), 2 * SECOND);
    }

    #[test]
    fn too_little_time_is_shared_in_proportion() {
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), 5 * SECOND, 10 * SECOND), SECOND / 2);
        assert_eq!(time_limit(&arm(SECOND, 3 * SECOND), Duration::ZERO, 10 * SECOND), Duration::ZERO);
        assert_eq!(time_limit(&arm(Duration::ZERO, SECOND), SECOND, Duration::ZERO), SECOND);
    }
}
