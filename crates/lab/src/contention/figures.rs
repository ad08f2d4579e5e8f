//! What a trace comes to. Pure.

use std::time::Duration;

use serde::Serialize;

use super::trace::{Answer, Attempt, Trace};

/// Arrivals are counted in buckets of this length.
pub const ARRIVALS_BUCKET: Duration = Duration::from_millis(10);

/// Contenders that are served are fewer, and come over a longer time.
pub const SERVED_BUCKET: Duration = Duration::from_millis(50);

/// Into so many slices at most the time is cut, to see whether successes are spread over it.
const SLICES_MAX: usize = 50;

/// Fewer successes than this are not spread over anything.
const SUCCESSES_MIN: usize = 10;

/// Points of a curve that are kept.
const POINTS_MAX: usize = 400;

/// Times below which half, 95 % and 99 % lie, and the longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// One arm in numbers. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub contenders: u32,
    /// Everything that was sent, retries included.
    pub requests: usize,
    pub ok: usize,
    #[serde(rename = "status_409")]
    pub held: usize,
    #[serde(rename = "status_429")]
    pub at_capacity: usize,
    #[serde(rename = "status_503")]
    pub unavailable: usize,
    pub other: usize,
    /// Requests that were not a contender's first.
    pub retries: usize,
    /// Deliveries that the server put off; null where it does not count them.
    pub redeliveries: Option<u64>,
    /// How long requests took.
    pub request_ms: Option<Quantiles>,
    pub served: usize,
    /// How long contenders took until they had what they wanted, from when all were let go.
    pub served_ms: Option<Quantiles>,
    /// When the last was served; null if somebody never was.
    pub all_served_ms: Option<f64>,
    /// The largest bucket of arrivals over the mean one, until the last answer; null where not all arrivals were seen.
    pub wave: Option<f64>,
    /// The same of retries alone, from the first of them to the last.
    pub retry_wave: Option<f64>,
    /// The share of slices of the time in which somebody was served.
    pub spread: Option<f64>,
    pub commands: Option<u64>,
    pub commands_per_request: Option<f64>,
    /// Of those, the ones that had no answer yet when the time was over: how long they took is not known.
    pub unanswered: usize,
    /// Requests that made the load and are not judged.
    pub background: u64,
    pub elapsed_ms: f64,
    pub cut_short: bool,
}

impl Figures {
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let count = |answer| trace.attempts.iter().filter(|attempt| attempt.answer == answer).count();
        let everyone = trace.served.len() >= trace.contenders as usize;
        let sent = trace.attempts.len() + trace.unanswered.len();
        let requests = sent as u64 + trace.background;
        let retries: Vec<_> = trace.attempts.iter().filter(|attempt| attempt.number > 1).collect();
        let seen = !trace.has_unseen_arrivals;
        Self {
            contenders: trace.contenders,
            requests: sent,
            ok: count(Answer::Ok),
            held: count(Answer::Held),
            at_capacity: count(Answer::AtCapacity),
            unavailable: count(Answer::Unavailable),
            other: count(Answer::Other),
            retries: retries.len(),
            redeliveries: trace.redeliveries,
            request_ms: quantiles(trace.attempts.iter().map(|attempt| attempt.took)),
            served: trace.served.len(),
            served_ms: quantiles(trace.served.iter().copied()),
            all_served_ms: trace.served.iter().max().filter(|_| everyone).copied().map(rounded_ms),
            wave: peak_to_mean(&arrivals(trace)),
            retry_wave: peak_to_mean(&buckets(&retries)).filter(|_| seen),
            spread: spread(&trace.served),
            commands: trace.commands,
            commands_per_request: trace
                .commands
                .filter(|_| requests > 0)
                .map(|all| rounded(ratio(all, requests))),
            unanswered: trace.unanswered.len(),
            background: trace.background,
            elapsed_ms: rounded_ms(trace.elapsed),
            cut_short: trace.is_cut,
        }
    }
}

/// What is drawn of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Arrivals in each bucket of 10 ms; empty where not all of them were seen.
    pub arrivals: Vec<u32>,
    /// Contenders that were served, in each bucket of 50 ms.
    pub served: Vec<u32>,
    /// How long requests took, the shortest first; of many, some.
    pub request_ms: Vec<f64>,
    /// When contenders were served, the first first; of many, some.
    pub served_ms: Vec<f64>,
}

impl Series {
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        Self {
            arrivals: arrivals(trace),
            served: served(trace),
            request_ms: thinned(trace.attempts.iter().map(|attempt| attempt.took)),
            served_ms: thinned(trace.served.iter().copied()),
        }
    }
}

/// Milliseconds, to the microsecond.
fn rounded_ms(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1_000.0)
}

fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab are far below what a double holds")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// By nearest rank: each is a time that was measured. None of nothing.
#[must_use]
pub fn quantiles(times: impl Iterator<Item = Duration>) -> Option<Quantiles> {
    let mut sorted: Vec<Duration> = times.collect();
    sorted.sort_unstable();
    let last = *sorted.last()?;
    let rank = |percent: usize| {
        let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        rounded_ms(sorted[place.min(sorted.len() - 1)])
    };
    Some(Quantiles { p50: rank(50), p95: rank(95), p99: rank(99), max: rounded_ms(last) })
}

fn bucket(time: Duration, length: Duration) -> usize {
    usize::try_from(time.as_millis() / length.as_millis()).unwrap_or(usize::MAX)
}

/// Arrivals in each bucket, from when all were let go to the last answer. Some of them would be no picture of all.
fn arrivals(trace: &Trace) -> Vec<u32> {
    if trace.has_unseen_arrivals {
        return Vec::new();
    }
    let answered = trace.attempts.iter().map(|attempt| attempt.sent + attempt.took);
    let Some(end) = answered.chain(trace.unanswered.iter().copied()).max() else { return Vec::new() };
    let sent = trace.attempts.iter().map(|attempt| &attempt.sent).chain(&trace.unanswered);
    counted(sent, end, ARRIVALS_BUCKET)
}

/// Contenders that were served in each bucket, to the last of them.
fn served(trace: &Trace) -> Vec<u32> {
    let end = trace.served.iter().max();
    end.map(|end| counted(trace.served.iter(), *end, SERVED_BUCKET)).unwrap_or_default()
}

/// How many of these times, none after `end`, are in each bucket of this length.
fn counted<'a>(times: impl Iterator<Item = &'a Duration>, end: Duration, length: Duration) -> Vec<u32> {
    let mut counts = vec![0; bucket(end, length) + 1];
    times.for_each(|time| counts[bucket(*time, length)] += 1);
    counts
}

/// From the first of these to the last.
fn buckets(attempts: &[&Attempt]) -> Vec<u32> {
    let places = || attempts.iter().map(|attempt| bucket(attempt.sent, ARRIVALS_BUCKET));
    let (Some(first), Some(last)) = (places().min(), places().max()) else { return Vec::new() };
    let mut counts = vec![0; last - first + 1];
    places().for_each(|place| counts[place - first] += 1);
    counts
}

/// The largest bucket over the mean one: 1 if all are alike. None of nothing.
#[must_use]
pub fn peak_to_mean(counts: &[u32]) -> Option<f64> {
    let sum: u64 = counts.iter().copied().map(u64::from).sum();
    let peak = counts.iter().copied().max().filter(|peak| *peak > 0)?;
    Some(rounded(ratio(u64::from(peak) * counts.len() as u64, sum)))
}

/// The time until the last of these is cut into as many slices as there are times, 50 at most; the share of the slices
/// that have one. All slices if they come evenly, two thirds if by chance, few if in waves. None of fewer than ten.
#[must_use]
pub fn spread(times: &[Duration]) -> Option<f64> {
    let end = times.iter().max().filter(|end| times.len() >= SUCCESSES_MIN && !end.is_zero())?;
    let slices = times.len().min(SLICES_MAX);
    let mut hit = vec![false; slices];
    for time in times {
        let place = time.as_nanos() * slices as u128 / end.as_nanos();
        hit[usize::try_from(place).unwrap_or(slices).min(slices - 1)] = true;
    }
    let share = hit.iter().filter(|hit| **hit).count();
    Some(rounded(ratio(share as u64, slices as u64)))
}

/// Sorted, and of many every so manieth, the first and the last among them.
fn thinned(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut sorted: Vec<Duration> = times.collect();
    sorted.sort_unstable();
    let count = sorted.len();
    if count <= POINTS_MAX {
        return sorted.into_iter().map(rounded_ms).collect();
    }
    (0..POINTS_MAX).map(|point| rounded_ms(sorted[point * (count - 1) / (POINTS_MAX - 1)])).collect()
}

#[cfg(test)]
mod tests;
