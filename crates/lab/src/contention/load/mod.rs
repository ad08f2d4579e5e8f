//! The load of an arm, carried out.

mod burst;
mod locks;
mod probes;
mod results;
mod starts;
mod steps;

use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result, Settings};
use interlock_api::limits::{ConfigData, ConfigRequest, ConfigScope, LimitsData};
use interlock_model::retry::Seed;
use serde_json::json;

use super::plan::Work;
use super::report::StepReport;
use super::trace::Trace;

/// What the lab's workflow and its topic are called.
pub(super) const WORKFLOW: &str = "lab";

/// The one step of the workflow.
const STEP: &str = "work";

/// After this a run ends by itself, should nobody remove it.
const RUN_LIMIT: Duration = Duration::from_mins(15);

/// One arm's place on a server: tenants of its own.
pub(super) struct Stage {
    pub(super) connection: Settings,
    pub(super) tenant: String,
    /// Of another tenant that makes load.
    pub(super) neighbour: String,
    pub(super) seed: Seed,
    /// How long the load may last, once it has begun.
    pub(super) limit: Duration,
    /// When it must have ended, however late it began.
    pub(super) deadline: Instant,
}

/// What came of the load.
pub(super) enum Seen {
    Trace(Trace),
    Steps(Vec<StepReport>),
}

impl Stage {
    pub(super) fn client(&self, tenant: &str) -> Result<Client> {
        Client::new(Settings { tenant: Some(tenant.to_owned()), ..self.connection.clone() })
    }

    /// When the time of a load that begins now is over.
    fn until(&self) -> Instant {
        (Instant::now() + self.limit).min(self.deadline)
    }

    pub(super) async fn carry_out(&self, work: &Work) -> Result<Seen> {
        let trace = match *work {
            Work::Starts { starts, runs_max, retry, tries_max } => {
                self.starts(&starts::Starts { count: starts, runs_max, retry, tries_max }).await
            }
            Work::Results { results } => self.results(results).await,
            Work::Locks { contenders, hold_ms, poll } => {
                self.locks(contenders, Duration::from_millis(hold_ms), poll).await
            }
            Work::Probes { probes, storm_per_second } => self.probes(probes, storm_per_second).await,
            Work::Steps => return self.steps().await.map(Seen::Steps),
        };
        trace.map(Seen::Trace)
    }

    /// Saves the workflow that everybody starts. `for_each` item of its input, if asked for, it has a job.
    async fn save_workflow(&self, client: &Client, is_fanned_out: bool) -> Result<()> {
        let mut step = json!({"type": "worker", "topic": WORKFLOW});
        if is_fanned_out {
            step["for_each"] = json!("input.items");
        }
        let document = json!({
            "id": WORKFLOW,
            "name": "interlock lab",
            "timeout_sec": RUN_LIMIT.as_secs(),
            "steps": {STEP: step},
        });
        client.create_workflow_as_written(&document).await.map(drop)
    }

    /// The order in which contenders are let go.
    fn order(&self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|contender| self.seed.part(u64::from(*contender)).number());
        order
    }
}

/// How many runs a tenant may have; none says: as many as the system gives it.
pub(super) async fn limit_runs(client: &Client, tenant: &str, runs_max: Option<u32>) -> Result<()> {
    let limits = LimitsData { max_concurrent_runs: runs_max, ..LimitsData::default() };
    let request = ConfigRequest {
        scope: ConfigScope::Org,
        scope_id: Some(tenant.to_owned()),
        data: ConfigData { limits },
    };
    client.put_config(&request).await
}

/// What the store was asked for and how often results were put off, as far as the server counts it.
pub(super) struct Counters {
    commands: u64,
    redeliveries: Option<u64>,
}

impl Counters {
    /// Read before the load. What reading costs is not counted, but for one look at the store.
    pub(super) async fn before(client: &Client) -> Result<Self> {
        let redeliveries = redeliveries(client).await;
        Ok(Self { redeliveries, commands: client.status().await?.store.commands_sent })
    }

    /// Read after the load.
    pub(super) async fn after(client: &Client) -> Result<Self> {
        let commands = client.status().await?.store.commands_sent;
        Ok(Self { commands, redeliveries: redeliveries(client).await })
    }

    /// What was counted since, written into the trace.
    pub(super) fn add_to(&self, trace: &mut Trace, later: &Self) {
        trace.commands = Some(later.commands.saturating_sub(self.commands));
        trace.redeliveries =
            self.redeliveries.zip(later.redeliveries).map(|(before, after)| after.saturating_sub(before));
    }
}

/// A server whose numbers cannot be read is measured without them.
async fn redeliveries(client: &Client) -> Option<u64> {
    sum_of(&client.metrics().await.ok()?, "lock_busy_retry_count")
}

/// All samples of this name together; none if there are none.
fn sum_of(metrics: &str, name: &str) -> Option<u64> {
    let samples = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        rest.rsplit(' ').next()?.parse::<u64>().ok()
    });
    samples.reduce(|sum, sample| sum + sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_are_added_and_others_left_out() {
        let text = "# HELP a_count x\na_count{arm=\"control\"} 3\na_count{arm=\"candidate\"} 4\na_count_more 9\nb 1\n";
        assert_eq!(sum_of(text, "a_count"), Some(7));
        assert_eq!(sum_of("a_count 12\n", "a_count"), Some(12));
        assert_eq!(sum_of(text, "c"), None);
    }
}
