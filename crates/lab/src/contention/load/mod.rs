//! Generates the load of an arm.

mod burst;
mod locks;
mod probes;
mod results;
mod runbook;
mod starts;

use std::time::{Duration, Instant};

use interlock_api::client::{Client, ClientSettings, Result};
use interlock_api::jobs::{ClaimRequest, ClaimedJob};
use interlock_api::limits::{ConfigData, ConfigRequest, ConfigScope, LimitsData};
use interlock_model::retry::Seed;
use serde_json::json;

use super::plan::Workload;
use super::report::StepReport;
use super::trace::LoadTrace;

/// The name of the lab's workflow, topic and lock.
pub(super) const WORKFLOW: &str = "lab";

/// The timeout of the lab's runs, in case the cleanup fails.
const RUN_TIMEOUT: Duration = Duration::from_mins(15);

/// The server, tenants and time limits of one arm.
pub(super) struct LoadGenerator {
    pub(super) connection: ClientSettings,
    pub(super) tenant: String,
    /// A second tenant that only generates load.
    pub(super) neighbour: String,
    pub(super) seed: Seed,
    /// How long the load may last once it has begun.
    pub(super) limit: Duration,
    /// When the load must end, however late it begins.
    pub(super) deadline: Instant,
}

pub(super) enum LoadResult {
    Trace(LoadTrace),
    Steps(Vec<StepReport>),
}

impl LoadGenerator {
    pub(super) fn client(&self, tenant: &str) -> Result<Client> {
        Client::new(ClientSettings { tenant: Some(tenant.to_owned()), ..self.connection.clone() })
    }

    /// When a load that begins now must end.
    fn until(&self) -> Instant {
        (Instant::now() + self.limit).min(self.deadline)
    }

    pub(super) async fn run(&self, work: &Workload) -> Result<LoadResult> {
        let trace = match *work {
            Workload::Starts(load) => self.starts(load).await,
            Workload::Results { results } => self.results(results).await,
            Workload::Locks { contenders, hold_ms, poll } => {
                self.locks(contenders, Duration::from_millis(hold_ms), poll).await
            }
            Workload::Probes { probes, storm_per_second } => self.probes(probes, storm_per_second).await,
            Workload::Steps => return self.runbook().await.map(LoadResult::Steps),
        };
        trace.map(LoadResult::Trace)
    }

    /// The order in which contenders are spawned.
    fn order(&self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|contender| self.seed.part(u64::from(*contender)).number());
        order
    }
}

/// Saves the workflow of the lab: one job per run, or one per item of its input.
async fn save_workflow(client: &Client, is_fanned_out: bool) -> Result<()> {
    let mut step = json!({"type": "worker", "topic": WORKFLOW});
    if is_fanned_out {
        step["for_each"] = json!("input.items");
    }
    let document = json!({
        "id": WORKFLOW,
        "name": "interlock lab",
        "timeout_sec": RUN_TIMEOUT.as_secs(),
        "steps": {"work": step},
    });
    client.create_workflow(&document).await.map(drop)
}

/// Sets the tenant's cap; `None` restores the system's.
pub(super) async fn limit_runs(client: &Client, tenant: &str, runs_max: Option<u32>) -> Result<()> {
    let limits = LimitsData { max_concurrent_runs: runs_max, ..LimitsData::default() };
    let request = ConfigRequest {
        scope: ConfigScope::Org,
        scope_id: Some(tenant.to_owned()),
        data: ConfigData { limits },
    };
    client.put_config(&request).await
}

/// Claims jobs of the lab's workflow as one of its workers.
async fn claim(
    client: &Client,
    worker: u32,
    max_jobs: u32,
    wait_ms: u64,
    lease_ms: Option<u64>,
) -> Result<Vec<ClaimedJob>> {
    let worker = format!("lab-{worker}").parse().expect("a valid worker id");
    let topics = vec![WORKFLOW.parse().expect("a valid topic")];
    let request = ClaimRequest { topics, max_jobs, wait_ms, lease_ms, capabilities: Vec::new() };
    Ok(client.claim(&worker, &request).await?.jobs)
}

/// The server's counters before the load.
struct ServerCounters {
    commands: u64,
    redeliveries: Option<u64>,
}

impl ServerCounters {
    /// The status is read last, and first in [`Self::add_difference`], so that reading the metrics adds no commands.
    async fn read(client: &Client) -> Result<Self> {
        let redeliveries = redeliveries(client).await;
        Ok(Self { redeliveries, commands: client.status().await?.store.commands_sent })
    }

    /// Reads the counters after the load and adds the difference to the trace.
    async fn add_difference(self, client: &Client, trace: &mut LoadTrace) -> Result<()> {
        let commands = client.status().await?.store.commands_sent;
        trace.commands = Some(commands.saturating_sub(self.commands));
        let counts = self.redeliveries.zip(redeliveries(client).await);
        trace.redeliveries = counts.map(|(before, after)| after.saturating_sub(before));
        Ok(())
    }
}

/// None if the server's metrics cannot be read.
async fn redeliveries(client: &Client) -> Option<u64> {
    sum_of(&client.metrics().await.ok()?, "lock_busy_retry_count")
}

/// The sum of all samples of a metric, if there are any.
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
    fn only_samples_of_the_same_name_are_added() {
        let text = "# HELP a_count x\na_count{arm=\"control\"} 3\na_count{arm=\"candidate\"} 4\na_count_more 9\nb 1\n";
        assert_eq!(sum_of(text, "a_count"), Some(7));
        assert_eq!(sum_of("a_count 12\n", "a_count"), Some(12));
        assert_eq!(sum_of(text, "c"), None);
    }
}
