//! What was spent of budgets, for a bounded number of them.

use std::cmp::Reverse;
use std::fmt::Error;

use interlock_model::budget::{Amount, Ledger};
use interlock_model::{BudgetName, TenantId};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The labels of all budgets that have none of their own.
const OTHER: &str = "other";

/// What one scrape reads of a budget: the sum of its window over all keys or runs.
#[derive(Debug)]
pub(crate) struct BudgetFigures {
    pub tenant: TenantId,
    pub budget: BudgetName,
    pub total: Ledger,
    /// None: each key or run has an amount of its own.
    pub limit: Option<Amount>,
    /// Settlements of more than was reserved, and thresholds that were reached, since it was made.
    pub overdrafts: u64,
    pub warnings: u64,
}

type Column = (&'static str, &'static str, fn(&BudgetFigures) -> Option<Amount>);

const COLUMNS: [Column; 4] = [
    ("interlock_budget_spent", "What was settled in this window, in units of the budget", |of| {
        Some(of.total.spent)
    }),
    ("interlock_budget_reserved", "What open permits may still spend", |of| Some(of.total.reserved)),
    (
        "interlock_budget_unsettled",
        "What permits had reserved that expired without a settlement, which counts as spent",
        |of| Some(of.total.unsettled),
    ),
    ("interlock_budget_limit", "What may be spent in this window, where all share one amount", |of| of.limit),
];

type Count = (&'static str, &'static str, fn(&BudgetFigures) -> u64);

/// Of all budgets together: of settlements of clients, and of results of jobs.
const COUNTERS: [Count; 2] = [
    ("interlock_budget_overdraft", "Settlements of more than was reserved, of all budgets", |of| {
        of.overdrafts
    }),
    ("interlock_budget_warnings", "Thresholds that were reached, of all budgets", |of| of.warnings),
];

/// Those that have spent the most by name, the others together: their units may differ, so that their sum only shows
/// that there are some.
pub(super) fn encode<'f>(
    encoder: &mut DescriptorEncoder<'_>,
    budgets: impl Iterator<Item = &'f BudgetFigures>,
    names_max: usize,
) -> Result<(), Error> {
    let mut busiest: Vec<_> = budgets.collect();
    busiest.sort_by_key(|of| (Reverse(of.total.used()), &of.tenant, &of.budget));
    let (named, others) = busiest.split_at(busiest.len().min(names_max));
    for (name, help, figure) in COLUMNS {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for of in named {
            let Some(amount) = figure(of) else { continue };
            let labels = [("tenant", of.tenant.as_str()), ("budget", of.budget.as_str())];
            family.encode_family(&labels)?.encode_gauge(&amount.as_units())?;
        }
        let others = others.iter().filter_map(|of| figure(of)).fold(Amount::ZERO, Amount::plus);
        family.encode_family(&[("tenant", OTHER), ("budget", OTHER)])?.encode_gauge(&others.as_units())?;
    }
    for (name, help, count) in COUNTERS {
        let total: u64 = busiest.iter().map(|of| count(of)).sum();
        let mut series = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        series.encode_counter::<NoLabelSet, _, u64>(&total, None)?;
    }
    Ok(())
}
