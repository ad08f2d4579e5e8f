//! What the figures should be.

use serde_json::{Value, json};

use crate::report::Report;
use crate::{locks, results};

/// A figure beside what it should be.
#[derive(Debug)]
pub(crate) struct Target {
    name: &'static str,
    value: f64,
    bound: Bound,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

impl Target {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.value >= least,
            Bound::AtMost(most) => self.value <= most,
            Bound::Between(least, most) => (least..=most).contains(&self.value),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let bound = match self.bound {
            Bound::AtLeast(bound) | Bound::AtMost(bound) => json!(bound),
            Bound::Between(least, most) => json!([least, most]),
        };
        json!({"name": self.name, "value": self.value, "bound": bound, "met": self.is_met()})
    }

    /// Name, value, bound, and whether it is met.
    pub(crate) fn row(&self) -> [String; 4] {
        let bound = match self.bound {
            Bound::AtLeast(bound) | Bound::AtMost(bound) => bound.to_string(),
            Bound::Between(least, most) => format!("{least} to {most}"),
        };
        let met = if self.is_met() { "yes" } else { "NO" };
        [self.name.to_owned(), format!("{:.2}", self.value), bound, met.to_owned()]
    }
}

pub(crate) fn embedded(report: &Report) -> Vec<Target> {
    let (http, commit) = (report.rate("empty handler"), report.rate("bare group commit"));
    let tail = report.median("admitted starts").map_or(f64::NAN, |it| ratio(it.p99_us, it.p50_us));
    let admitted = report.rate("admitted starts") / http.min(commit);
    let mut targets = vec![
        Target { name: "admitted / lower ceiling", value: admitted, bound: Bound::AtLeast(0.5) },
        Target {
            name: "refused / empty handler",
            value: report.rate("refused starts") / http,
            bound: Bound::AtLeast(0.7),
        },
        Target { name: "p99 / p50, admitted, 64 clients", value: tail, bound: Bound::AtMost(8.0) },
    ];
    if let Some(memory) = &report.memory {
        let value = ratio(memory.bytes_per_run(), 1);
        targets.push(Target { name: "bytes per idle active run", value, bound: Bound::AtMost(4_096.0) });
    }
    targets
}

/// Without those of figures that were left out.
pub(crate) fn redis(report: &Report) -> Vec<Target> {
    let flat = |name, many, few| Target {
        name,
        value: report.rate(many) / report.rate(few),
        bound: Bound::Between(0.8, 1.2),
    };
    let admitted = report.rate("admitted starts") / report.rate("bare script");
    let targets = [
        Target { name: "admitted / bare script", value: admitted, bound: Bound::AtLeast(0.5) },
        flat("starts with many / few active runs", "runs-many", "runs-few"),
        flat("starts with many / few idempotency keys", "keys-many", "keys-few"),
    ];
    targets.into_iter().filter(|target| !target.value.is_nan()).collect()
}

pub(crate) fn locks(report: &Report) -> Vec<Target> {
    let p50 = |name| report.median(name).map_or(0, |measured| measured.p50_us);
    // Rates are per grant: a second of them, beside a second of one who is alone.
    let total = 1.0 / (report.rate(locks::IN_LINE) * locks::seconds_alone(p50(locks::PAIR)));
    let hand_off = ratio(p50(locks::HAND_OFF), p50(locks::UNCONTENDED));
    vec![
        Target { name: "contenders' time / alone", value: total, bound: Bound::AtMost(3.0) },
        Target {
            name: "commands per grant",
            value: report.commands_per_grant(locks::IN_LINE),
            bound: Bound::AtMost(10.0),
        },
        Target { name: "hand-off p50 / acquire p50", value: hand_off, bound: Bound::AtMost(3.0) },
    ]
}

pub(crate) fn results(report: &Report) -> Vec<Target> {
    let shared = report.rate(results::MANY_RUNS) / report.rate(results::ONE_RUN);
    let most = |name| ratio(report.most(name), 1);
    vec![
        Target { name: "one run's time / a run each", value: shared, bound: Bound::AtMost(1.2) },
        Target { name: results::WRITES, value: most(results::WRITES), bound: Bound::AtMost(100.0) },
        Target { name: results::RETRIES, value: most(results::RETRIES), bound: Bound::AtMost(0.0) },
    ]
}

#[expect(clippy::cast_precision_loss, reason = "microseconds and bytes of a benchmark are far below 2^52")]
fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator.max(1) as f64
}
