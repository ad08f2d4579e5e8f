//! Statistics of a trace. Pure.

use std::time::Duration;

use serde::Serialize;

use super::trace::{LoadTrace, RequestAttempt, RequestOutcome};

/// The bucket length of arrivals.
pub(super) const ARRIVALS_BUCKET: Duration = Duration::from_millis(10);

/// The bucket length of served contenders, which are fewer than arrivals and take longer.
pub(super) const SERVED_BUCKET: Duration = Duration::from_millis(50);

/// The most time slices for [`spread`].
const SLICES_MAX: usize = 50;

/// Fewer successes than this have no spread.
const SUCCESSES_MIN: usize = 10;

/// The most points of a curve.
const POINTS_MAX: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// The statistics of one arm. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmFigures {
    pub contenders: u32,
    /// All requests, retries included.
    pub requests: usize,
    pub ok: usize,
    #[serde(rename = "status_409")]
    pub held: usize,
    #[serde(rename = "status_429")]
    pub at_capacity: usize,
    #[serde(rename = "status_503")]
    pub unavailable: usize,
    pub other: usize,
    /// Requests after a contender's first.
    pub retries: usize,
    /// Results that the server deferred; null if the server does not count them.
    pub redeliveries: Option<u64>,
    pub request_ms: Option<Quantiles>,
    pub served: usize,
    /// Times from the common start until contenders were served.
    pub served_ms: Option<Quantiles>,
    /// When the last contender was served; null if not all were.
    pub all_served_ms: Option<f64>,
    /// Peak over mean of the arrival buckets up to the last response; null if the lab does not see all arrivals.
    pub wave: Option<f64>,
    /// Peak over mean of the retry buckets, from the first retry to the last.
    pub retry_wave: Option<f64>,
    /// The share of time slices in which a contender was served.
    pub spread: Option<f64>,
    pub commands: Option<u64>,
    pub commands_per_request: Option<f64>,
    /// Requests without a response at the time limit. They have no duration.
    pub unanswered: usize,
    /// Requests that only generated load.
    pub background: u64,
    pub elapsed_ms: f64,
    pub cut_short: bool,
}

impl ArmFigures {
    pub(super) fn of(trace: &LoadTrace) -> Self {
        let count = |outcome| trace.responses().filter(|response| response.1 == outcome).count();
        let all_served = trace.served.len() >= trace.contenders as usize;
        let sent = trace.attempts.len();
        let requests = sent as u64 + trace.background;
        let retries: Vec<_> =
            trace.attempts.iter().filter(|attempt| attempt.number > 1).map(|attempt| attempt.sent).collect();
        Self {
            contenders: trace.contenders,
            requests: sent,
            ok: count(RequestOutcome::Ok),
            held: count(RequestOutcome::Held),
            at_capacity: count(RequestOutcome::AtCapacity),
            unavailable: count(RequestOutcome::Unavailable),
            other: count(RequestOutcome::Other),
            retries: retries.len(),
            redeliveries: trace.redeliveries,
            request_ms: quantiles(trace.responses().map(|(took, _)| took)),
            served: trace.served.len(),
            served_ms: quantiles(trace.served.iter().copied()),
            all_served_ms: trace.served.iter().max().filter(|_| all_served).copied().map(rounded_ms),
            wave: peak_to_mean(&arrivals(trace)),
            retry_wave: peak_to_mean(&retry_arrivals(&retries)).filter(|_| !trace.has_unseen_arrivals),
            spread: spread(&trace.served),
            commands: trace.commands,
            commands_per_request: trace
                .commands
                .filter(|_| requests > 0)
                .map(|all| rounded(ratio(all, requests))),
            unanswered: sent - trace.responses().count(),
            background: trace.background,
            elapsed_ms: rounded_ms(trace.elapsed),
            cut_short: trace.is_cut,
        }
    }
}

/// The data of an arm's charts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Arrivals per 10 ms; empty if the lab does not see all arrivals.
    pub arrivals: Vec<u32>,
    /// Served contenders per 50 ms.
    pub served: Vec<u32>,
    /// Sorted request durations, thinned to 400.
    pub request_ms: Vec<f64>,
    /// Sorted times at which contenders were served, thinned to 400.
    pub served_ms: Vec<f64>,
}

impl Series {
    pub(super) fn of(trace: &LoadTrace) -> Self {
        Self {
            arrivals: arrivals(trace),
            served: served(trace),
            request_ms: thinned(trace.responses().map(|(took, _)| took)),
            served_ms: thinned(trace.served.iter().copied()),
        }
    }
}

/// Milliseconds with a precision of microseconds.
fn rounded_ms(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1_000.0)
}

fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab are far below the precision of a double")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut sorted: Vec<Duration> = times.collect();
    sorted.sort_unstable();
    sorted
}

/// Quantiles by nearest rank, so that each is a measured time.
fn quantiles(times: impl Iterator<Item = Duration>) -> Option<Quantiles> {
    let sorted = sorted(times);
    let last = *sorted.last()?;
    let rank = |percent: usize| rounded_ms(sorted[(sorted.len() * percent).div_ceil(100) - 1]);
    Some(Quantiles { p50: rank(50), p95: rank(95), p99: rank(99), max: rounded_ms(last) })
}

/// Arrivals per bucket from the common start to the last response. A part of the arrivals would be misleading.
fn arrivals(trace: &LoadTrace) -> Vec<u32> {
    if trace.has_unseen_arrivals {
        return Vec::new();
    }
    let took = |attempt: &RequestAttempt| attempt.response.map_or(Duration::ZERO, |(took, _)| took);
    let Some(end) = trace.attempts.iter().map(|attempt| attempt.sent + took(attempt)).max() else {
        return Vec::new();
    };
    let sent = trace.attempts.iter().map(|attempt| attempt.sent);
    histogram(sent, (Duration::ZERO, end), ARRIVALS_BUCKET)
}

fn retry_arrivals(retries: &[Duration]) -> Vec<u32> {
    let sent = || retries.iter().copied();
    let Some(range) = sent().min().zip(sent().max()) else { return Vec::new() };
    histogram(sent(), range, ARRIVALS_BUCKET)
}

/// Served contenders per bucket, up to the last one.
fn served(trace: &LoadTrace) -> Vec<u32> {
    let Some(&end) = trace.served.iter().max() else { return Vec::new() };
    histogram(trace.served.iter().copied(), (Duration::ZERO, end), SERVED_BUCKET)
}

/// The number of times per bucket. All times must be in the range.
fn histogram(
    times: impl Iterator<Item = Duration>,
    (start, end): (Duration, Duration),
    length: Duration,
) -> Vec<u32> {
    let bucket = |time: Duration| {
        usize::try_from(time.as_millis() / length.as_millis()).expect("a lab does not last that long")
    };
    let first = bucket(start);
    let mut counts = vec![0; bucket(end) - first + 1];
    times.for_each(|time| counts[bucket(time) - first] += 1);
    counts
}

/// The largest bucket divided by the mean one: 1 if all are equal.
fn peak_to_mean(counts: &[u32]) -> Option<f64> {
    let sum: u64 = counts.iter().copied().map(u64::from).sum();
    let peak = counts.iter().copied().max().filter(|peak| *peak > 0)?;
    Some(rounded(ratio(u64::from(peak) * counts.len() as u64, sum)))
}

/// Cuts the time until the last success into as many slices as there are successes, at most 50, and returns the share
/// of slices with a success: all if successes are even, two thirds if they are random, few if they come in waves.
fn spread(times: &[Duration]) -> Option<f64> {
    let end = times.iter().max().filter(|end| times.len() >= SUCCESSES_MIN && !end.is_zero())?;
    let slices = times.len().min(SLICES_MAX);
    let mut hit = vec![false; slices];
    for time in times {
        let slice = time.as_nanos() * slices as u128 / end.as_nanos();
        hit[usize::try_from(slice).unwrap_or(slices).min(slices - 1)] = true;
    }
    let hits = hit.iter().filter(|hit| **hit).count();
    Some(rounded(ratio(hits as u64, slices as u64)))
}

/// Sorts the times and keeps at most [`POINTS_MAX`] at equal distances, the first and the last included.
fn thinned(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    let sorted = sorted(times);
    let count = sorted.len();
    if count <= POINTS_MAX {
        return sorted.into_iter().map(rounded_ms).collect();
    }
    (0..POINTS_MAX).map(|point| rounded_ms(sorted[point * (count - 1) / (POINTS_MAX - 1)])).collect()
}

#[cfg(test)]
mod tests;
