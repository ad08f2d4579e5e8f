//! The course of the lab: which arm is measured when, on which server, and for how long at most.

use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error};
use interlock_api::status::Strategies;

use super::Progress;
use super::clean;
use super::figures::{Figures, Series};
use super::ground::{Ground, LaunchError, Site};
use super::load::{Seen, Stage};
use super::plan::{Arm, Plan, Scenario};
use super::report::{ArmReport, ScenarioReport};

/// What an arm may take beside its load: saving workflows, opening connections.
const PREPARATION: Duration = Duration::from_secs(8);

/// What the last arms may take of that when the time of the whole lab is over.
const GRACE: Duration = Duration::from_secs(2);

/// What an arm costs beside its load, usually: a server that starts and stops.
const OVERHEAD: Duration = Duration::from_millis(200);

/// Less is not worth beginning.
const SHORTEST: Duration = Duration::from_millis(300);

/// So much everybody gets while there is so much: a machine that is busy must not leave out what takes no time.
const FLOOR: Duration = Duration::from_millis(500);

/// What kept an arm from being measured; or the whole lab, if it met the first of them.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{0}")]
    Launch(LaunchError),
    #[error("{0}")]
    Api(Error),
}

/// A server that is measured on.
struct Place {
    /// What it was started with.
    flags: Vec<String>,
    site: Site,
    /// What it says of itself.
    strategies: Strategies,
}

pub(super) struct Conduct<'a> {
    plan: &'a Plan,
    ground: &'a Ground<'a>,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
    /// Tells the tenants of this lab from those of all others on the same store.
    mark: String,
    until: Instant,
    /// The server of the last arm.
    place: Option<Place>,
    backend: Option<String>,
    /// Arms that are behind us, and all.
    done: usize,
    arms: usize,
    /// A tenant that is in use, with the way to it.
    traces: Vec<(Client, String)>,
    scenarios: Vec<ScenarioReport>,
    left_behind: Vec<String>,
}

impl<'a> Conduct<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        ground: &'a Ground<'a>,
        progress: &'a (dyn Fn(Progress<'_>) + Sync),
    ) -> Self {
        Self {
            plan,
            ground,
            progress,
            mark: format!("{:08x}", rand::random::<u32>()),
            until: Instant::now() + plan.limit,
            place: None,
            backend: None,
            done: 0,
            arms: 0,
            traces: Vec::new(),
            scenarios: Vec::new(),
            left_behind: Vec::new(),
        }
    }

    pub(super) async fn run(&mut self) -> Result<(), Trouble> {
        let arms = |scenario: &Scenario| (*scenario, self.plan.arms(*scenario, self.ground.is_there()));
        let all: Vec<(Scenario, Vec<Arm>)> = self.plan.course().iter().map(arms).collect();
        self.arms = all.iter().map(|(_, arms)| arms.len()).sum();
        let mut expected: Duration = all.iter().flat_map(|(_, arms)| arms).map(|arm| arm.expected).sum();
        for (scenario, arms) in all {
            let sentence = scenario.sentence();
            self.scenarios.push(ScenarioReport { scenario, sentence, arms: Vec::new() });
            for arm in arms {
                let left = self.until.saturating_duration_since(Instant::now());
                let arms_left = u32::try_from(self.arms - self.done).unwrap_or(u32::MAX);
                let limit = share(&arm, left.saturating_sub(OVERHEAD * arms_left), expected);
                expected = expected.saturating_sub(arm.expected);
                let report = self.measure(scenario, &arm, limit).await?;
                self.scenarios.last_mut().expect("it was just begun").arms.push(report);
                self.done += 1;
            }
        }
        (self.progress)(Progress { done: self.done, arms: self.arms, doing: "cleaning up" });
        Ok(())
    }

    /// Removes what an interrupted arm has left, stops the server, and tells what was found.
    pub(super) async fn end(mut self) -> (Vec<ScenarioReport>, Option<String>, Vec<String>) {
        self.clean().await;
        if let Some(place) = self.place.take() {
            place.site.close().await;
        }
        self.scenarios.sort_by_key(|report| report.scenario);
        (self.scenarios, self.backend, self.left_behind)
    }

    async fn measure(
        &mut self,
        scenario: Scenario,
        arm: &Arm,
        limit: Duration,
    ) -> Result<ArmReport, Trouble> {
        let name = arm.name();
        (self.progress)(Progress { done: self.done, arms: self.arms, doing: &format!("{scenario}: {name}") });
        let report = ArmReport::new(arm);
        if limit < SHORTEST.min(arm.limit) {
            return Ok(report.with_note("not measured: out of time"));
        }
        let is_first = self.done == 0;
        let (connection, strategies) = match self.place_for(arm).await {
            Ok(place) => (place.site.connection.clone(), place.strategies.clone()),
            // The first answer of all tells whether there is a server, and whether we may.
            Err(trouble) if is_first => return Err(trouble),
            Err(trouble) => return Ok(report.with_note(format!("not measured: {trouble}"))),
        };
        let tenant = format!("lab-{}-{}", self.mark, self.done);
        let (neighbour, deadline) = (format!("{tenant}-storm"), self.until);
        let stage = Stage { connection, neighbour, tenant, seed: arm.seed, limit, deadline };
        let report = ArmReport { tenant: Some(stage.tenant.clone()), ..report };
        let latest = (Instant::now() + limit + PREPARATION).min(self.until + GRACE);
        let end = tokio::time::timeout_at(latest.into(), self.carry_out(&stage, arm)).await;
        self.clean().await;
        let Ok(end) = end else {
            return Ok(report.with_note("not measured: it could not be prepared in time"));
        };
        match end {
            Ok(Seen::Trace(trace)) => {
                let mut notes = trace.notes.clone();
                if trace.is_cut {
                    notes.insert(0, format!("cut short after {:.1} s", trace.elapsed.as_secs_f64()));
                }
                notes.extend(self.remark(arm, &strategies));
                let (figures, series) = (Some(Figures::of(&trace)), Series::of(&trace));
                Ok(ArmReport { figures, series, notes, ..report })
            }
            Ok(Seen::Steps(steps)) => Ok(ArmReport { steps, ..report }),
            Err(error) if is_first => Err(Trouble::Api(error)),
            Err(error) => Ok(report.with_note(format!("not measured: {error}"))),
        }
    }

    async fn carry_out(&mut self, stage: &Stage, arm: &Arm) -> Result<Seen, Error> {
        let client = stage.client(&stage.tenant)?;
        if self.ground.is_lasting() {
            // Written down before anything is made: an answer may be lost, or waited for in vain.
            self.traces.push((client, stage.tenant.clone()));
            self.traces.push((stage.client(&stage.neighbour)?, stage.neighbour.clone()));
        }
        stage.carry_out(&arm.work).await
    }

    async fn clean(&mut self) {
        // Forgotten only when it is removed: whoever interrupts the cleaning up does not want less of it.
        while let Some((client, tenant)) = self.traces.last().cloned() {
            self.left_behind.extend(clean::remove(&client, &tenant).await);
            self.traces.pop();
        }
    }

    /// A server for this arm: that of the last arm, if it was started with the same.
    async fn place_for(&mut self, arm: &Arm) -> Result<&Place, Trouble> {
        let flags = &arm.serving.flags;
        if self.place.as_ref().is_none_or(|place| place.flags != *flags) {
            if let Some(place) = self.place.take() {
                place.site.close().await;
            }
            let site = self.ground.open(flags).await.map_err(Trouble::Launch)?;
            let status = Client::new(site.connection.clone()).map_err(Trouble::Api)?.status().await;
            let status = status.map_err(Trouble::Api)?;
            self.backend = Some(status.backend.kind);
            self.place = Some(Place { flags: flags.clone(), site, strategies: status.strategies });
        }
        Ok(self.place.as_ref().expect("it was just opened"))
    }

    /// What the reader has to know of the server: what is in force there, if that was not for the lab to choose or is
    /// not what the lab chose.
    fn remark(&self, arm: &Arm, strategies: &Strategies) -> Option<String> {
        let chosen = |flag: &str, default: &str| {
            let flags = &arm.serving.flags;
            let place = flags.iter().position(|known| known == flag);
            place.and_then(|place| flags.get(place + 1)).map_or(default, String::as_str).to_owned()
        };
        let asked = (chosen("--admission-strategy", "atomic"), chosen("--run-strategy", "inbox"));
        let Strategies { admission, run } = strategies;
        let is_so = (&asked.0, &asked.1) == (admission, run);
        (self.ground.is_there() || !is_so).then(|| format!("in force: admission {admission}, results {run}"))
    }
}

/// How long an arm may take of what is left: its own limit, unless the arms after it would find less than they expect;
/// and never less than its share, so that the last may take everything, or than [`FLOOR`]. `all_expect` so much together,
/// it included; if that is more than is left, all get less.
fn share(arm: &Arm, left: Duration, all_expect: Duration) -> Duration {
    let after_it = all_expect.saturating_sub(arm.expected);
    let fair = left.mul_f64(arm.expected.as_secs_f64() / all_expect.as_secs_f64().max(f64::MIN_POSITIVE));
    arm.limit.min(left.saturating_sub(after_it)).max(fair).max(FLOOR.min(left))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Size;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn arm(expected: Duration, limit: Duration) -> Arm {
        let plan = Plan { seed: 1, size: Size::Tiny, scenarios: Vec::new(), limit };
        Arm { expected, limit, ..plan.arms(Scenario::Locks, false).remove(0) }
    }

    #[test]
    fn an_arm_that_finds_time_enough_may_take_all_that_it_may() {
        assert_eq!(share(&arm(SECOND, 3 * SECOND), 20 * SECOND, 10 * SECOND), 3 * SECOND);
    }

    #[test]
    fn what_is_left_to_the_last_is_all_its_own() {
        assert_eq!(share(&arm(SECOND, 3 * SECOND), 20 * SECOND, SECOND), 20 * SECOND);
        assert_eq!(share(&arm(SECOND, 3 * SECOND), 40 * SECOND, 10 * SECOND), 4 * SECOND);
    }

    #[test]
    fn what_takes_hardly_any_time_is_not_left_out_while_there_is_some() {
        assert_eq!(share(&arm(SECOND / 5, 3 * SECOND), 5 * SECOND, 10 * SECOND), FLOOR);
        assert_eq!(share(&arm(SECOND / 5, 3 * SECOND), SECOND / 10, 10 * SECOND), SECOND / 10);
    }

    /// What arms get in a lab of the default size, if they take so long: the names of those that are cut short.
    fn cut_short(takes: impl Fn(Scenario, &Arm) -> Duration) -> Vec<String> {
        let limit = Size::Small.limit();
        let plan = Plan { seed: 1, size: Size::Small, scenarios: Scenario::ALL.to_vec(), limit };
        let arms = |scenario| plan.arms(scenario, false).into_iter().map(move |arm| (scenario, arm));
        let all: Vec<_> = plan.course().into_iter().flat_map(arms).collect();
        let mut expected: Duration = all.iter().map(|(_, arm)| arm.expected).sum();
        let (mut left, mut cut) = (limit, Vec::new());
        for (place, (scenario, arm)) in all.iter().enumerate() {
            let overhead = OVERHEAD * u32::try_from(all.len() - place).unwrap();
            let (got, needed) = (share(arm, left.saturating_sub(overhead), expected), takes(*scenario, arm));
            if got < needed {
                cut.push(format!("{scenario}: {}: {got:?} of {needed:?}", arm.name()));
            }
            expected -= arm.expected;
            left = left.saturating_sub(OVERHEAD + got.min(needed));
        }
        cut
    }

    #[test]
    fn with_the_default_size_there_is_time_for_all_that_is_expected() {
        assert_eq!(cut_short(|_, arm| arm.expected), Vec::<String>::new());
    }

    #[test]
    fn arms_that_need_more_get_what_the_others_did_not_need() {
        // Results under a lock take more than twice as long, and everything else half of its time.
        let takes =
            |scenario, arm: &Arm| arm.expected.mul_f64(if scenario == Scenario::RunLock { 2.2 } else { 0.5 });
        assert_eq!(cut_short(takes), Vec::<String>::new());
    }

    #[test]
    fn an_arm_takes_nothing_from_those_after_it() {
        assert_eq!(share(&arm(SECOND, 3 * SECOND), 11 * SECOND, 10 * SECOND), 2 * SECOND);
    }

    #[test]
    fn where_there_is_too_little_for_all_everybody_gets_less() {
        assert_eq!(share(&arm(SECOND, 3 * SECOND), 5 * SECOND, 10 * SECOND), SECOND / 2);
        assert_eq!(share(&arm(SECOND, 3 * SECOND), Duration::ZERO, 10 * SECOND), Duration::ZERO);
        assert_eq!(share(&arm(Duration::ZERO, SECOND), SECOND, Duration::ZERO), SECOND);
    }
}
