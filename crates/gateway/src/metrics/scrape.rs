//! Figures that others count and a scrape reads: the stages, the policy, the store.

use std::fmt::Error;
use std::sync::{Mutex, PoisonError};

use interlock_backend::dead_letters::DeadLetterCount;
use interlock_backend::instrumented::VerbCalls;
use interlock_control::contention::{CleanupContext, Tallied};
use interlock_control::counts::Counted;
use interlock_model::TenantId;
use interlock_model::admission::Usage;
use interlock_model::contention::{Arm, Figures, Histogram};
use interlock_model::job::StaleState;
use interlock_model::lock::StageLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::budgets::{self, BudgetFigures};
use super::tenants::by_tenant;
use super::{LimitFigures, limits, store};

/// A counter that is documented under this name, without the `_total` of all others.
pub(super) const RETRIES: &str = "lock_busy_retry_count";

/// What one scrape reads from this process. Totals are since its start.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub counted: Counted,
    pub contention: Tallied,
    pub store_calls: Vec<(&'static str, VerbCalls)>,
    /// Jobs that went without a decision because the policy service was unreachable.
    pub fail_opens: u64,
    pub dead_letters_max: u32,
    pub is_store_up: bool,
    pub has_lost_data: bool,
    pub is_bus_up: bool,
}

/// What one scrape reads from the store about a tenant.
#[derive(Debug)]
pub(crate) struct TenantFigures {
    pub tenant: TenantId,
    pub usage: Usage,
    pub dead_letters: DeadLetterCount,
    pub budgets: Vec<BudgetFigures>,
    pub limits: Vec<LimitFigures>,
}

/// The last scrape.
#[derive(Debug)]
pub(super) struct Scraped {
    names_max: usize,
    last: Mutex<(Scrape, Vec<TenantFigures>)>,
}

impl Scraped {
    pub(super) fn new(names_max: usize) -> Self {
        Self { names_max, last: Mutex::default() }
    }

    /// Without figures of tenants, the last known ones stay.
    pub(super) fn set(&self, scrape: Scrape, tenants: Option<Vec<TenantFigures>>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0 = scrape;
        if let Some(tenants) = tenants {
            last.1 = tenants;
        }
    }
}

impl Collector for Scraped {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut families = Families(encoder);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (scrape, tenants) = &*last;
        families.one(
            "store_up",
            "Whether the store answered this scrape",
            Gauge(scrape.is_store_up.into()),
        )?;
        families.one(
            "store_data_lost",
            "Whether the store has lost its data since this process began",
            Gauge(scrape.has_lost_data.into()),
        )?;
        families.one("bus_up", "Whether the bus is connected", Gauge(scrape.is_bus_up.into()))?;
        families.one(
            "cordum_scheduler_input_fail_open",
            "Jobs that went without a decision because the policy service was unreachable",
            Counter(scrape.fail_opens),
        )?;
        encode_counted(&mut families, &scrape.counted)?;
        encode_contention(&mut families, &scrape.contention)?;
        encode_tenants(&mut families, tenants, self.names_max)?;
        budgets::encode(&mut families.0, tenants.iter().flat_map(|of| &of.budgets), self.names_max)?;
        limits::encode(&mut families.0, (&scrape.counted, tenants), self.names_max)?;
        store::encode(&mut families.0, &scrape.store_calls)?;
        families.one(
            "dead_letters_max",
            "Dead letters that one tenant may have",
            Gauge(scrape.dead_letters_max.into()),
        )
    }
}

fn encode_counted(families: &mut Families<'_>, counted: &Counted) -> Result<(), Error> {
    families.by(
        "loop",
        "loop_ticks",
        "Ticks of the loops that one replica at a time runs, made by this one",
        StageLock::ALL.into_iter().zip(counted.ticks).map(|(stage, ticks)| (stage.key(), Counter(ticks))),
    )?;
    families.one(
        "orphan_replayed",
        "Jobs that were written but not announced to a worker, until a scan found them",
        Counter(counted.orphans_replayed),
    )?;
    families.by(
        "state",
        "stale_jobs",
        "Jobs without a live lease at the last slow scan, before it ended them",
        StaleState::ALL.into_iter().zip(counted.stale_jobs).map(|(state, jobs)| (state.name(), Gauge(jobs))),
    )?;
    families.one(
        "slot_drift",
        "Slots and live runs that did not agree at the last scan",
        Gauge(counted.slot_drift),
    )?;
    families.one(
        "interlock_turns_abandoned",
        "Turns of runs that panicked or ran out of time in this process",
        Counter(counted.turns_abandoned),
    )?;
    families.one(
        "interlock_runs_quarantined",
        "Runs that this process quarantined because their turns were abandoned",
        Counter(counted.runs_quarantined),
    )?;
    families.one(
        "job_lock_wait",
        "Seconds from when a job was queued until its lease began",
        Seconds(&counted.job_lock_wait),
    )
}

fn encode_contention(families: &mut Families<'_>, contention: &Tallied) -> Result<(), Error> {
    let retries = Arm::ALL.map(|arm| contention.of(arm).retries).iter().sum();
    families.one(RETRIES, "Results that found their run busy and were deferred", Counter(retries))?;
    for (name, help, figure) in BY_ARM {
        families.by("arm", name, help, Arm::ALL.map(|arm| (arm.name(), figure(contention.of(arm)))))?;
    }
    let failures = |context: CleanupContext| (context.name(), Counter(contention.cleanup_failures(context)));
    families.by(
        "context",
        "idempotency_cleanup_failures",
        "Reserved idempotency keys that could not be released, by why they had to be",
        CleanupContext::ALL.map(failures),
    )
}

type OfArm = fn(&Figures) -> Figure<'_>;

const BY_ARM: [(&str, &str, OfArm); 4] = [
    ("lock_busy_retry_delay_ms", "How long results whose run was busy were deferred, each time", |figures| {
        Millis(&figures.retry_delay)
    }),
    ("run_lock_wait_ms", "From the arrival of a result until its run was acquired for it", |figures| {
        Millis(&figures.lock_wait)
    }),
    ("job_result_latency_ms", "From the arrival of a result until its run had processed it", |figures| {
        Millis(&figures.result_latency)
    }),
    (
        "lock_busy_first_retry_success",
        "Results that found their run busy at the first try and reached it at the second",
        |figures| Counter(figures.first_retry_successes),
    ),
];

fn encode_tenants(
    families: &mut Families<'_>,
    tenants: &[TenantFigures],
    names_max: usize,
) -> Result<(), Error> {
    let runs = by_tenant(names_max, tenants, |of| [of.usage.runs_active, of.usage.runs_max]);
    let active = runs.iter().map(|(tenant, [active, _])| (tenant, Gauge(*active)));
    families.by("tenant", "active_runs", "Runs that hold a slot", active)?;
    let max = runs.iter().map(|(tenant, [_, max])| (tenant, Gauge(*max)));
    families.by("tenant", "active_runs_max", "Runs that may hold a slot at once", max)?;
    let kept = by_tenant(names_max, tenants, |of| [of.dead_letters.kept]);
    let kept = kept.iter().map(|(tenant, [kept])| (tenant, Gauge(*kept)));
    families.by("tenant", "dead_letters", "Dead letters that are kept", kept)?;
    let dropped = tenants.iter().map(|of| of.dead_letters.dropped).sum();
    let help = "Dead letters that made room for others, as the store has counted them";
    families.one("dead_letters_dropped", help, Counter(dropped))
}

/// One figure of a family.
#[derive(Clone, Copy)]
enum Figure<'a> {
    Counter(u64),
    Gauge(u64),
    Millis(&'a Histogram),
    /// Of a histogram in milliseconds.
    Seconds(&'a Histogram),
}

use Figure::{Counter, Gauge, Millis, Seconds};

impl Figure<'_> {
    fn kind(self) -> MetricType {
        match self {
            Counter(_) => MetricType::Counter,
            Gauge(_) => MetricType::Gauge,
            Millis(_) | Seconds(_) => MetricType::Histogram,
        }
    }

    fn encode(self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        let (times, unit) = match self {
            Counter(total) => return encoder.encode_counter::<NoLabelSet, _, u64>(&total, None),
            Gauge(value) => return encoder.encode_gauge(&value),
            Millis(times) => (times, 1.0),
            Seconds(times) => (times, 1_000.0),
        };
        let buckets: Vec<_> = times.buckets().map(|(bound, count)| (bound / unit, count)).collect();
        encoder.encode_histogram::<NoLabelSet>(times.sum_ms() / unit, times.count(), &buckets, None)
    }
}

struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn one(&mut self, name: &str, help: &str, figure: Figure<'_>) -> Result<(), Error> {
        figure.encode(self.0.encode_descriptor(name, help, None, figure.kind())?)
    }

    fn by<'f, V: EncodeLabelValue>(
        &mut self,
        label: &str,
        name: &str,
        help: &str,
        figures: impl IntoIterator<Item = (V, Figure<'f>)>,
    ) -> Result<(), Error> {
        let mut figures = figures.into_iter().peekable();
        let Some((_, first)) = figures.peek() else { return Ok(()) };
        let mut family = self.0.encode_descriptor(name, help, None, first.kind())?;
        for (value, figure) in figures {
            figure.encode(family.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
