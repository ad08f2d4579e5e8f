//! The trace of a run, by W3C Trace Context.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{JobId, RunId};

/// The remote parent of our spans, as sent in the `traceparent` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    pub is_sampled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a traceparent has the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, and neither id is all zeros"
)]
pub struct InvalidTraceParent;

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let mut parts = text.split('-');
        let mut next =
            |digits| parts.next().and_then(|part| hexadecimal(part, digits)).ok_or(InvalidTraceParent);
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // Later versions may append fields, version 00 may not, and version ff is invalid.
        if version == 0xff || trace == 0 || span == 0 || version == 0 && parts.next().is_some() {
            return Err(InvalidTraceParent);
        }
        let span = u64::try_from(span).map_err(|_| InvalidTraceParent)?;
        Ok(Self { trace, span, is_sampled: flags & 1 == 1 })
    }
}

fn hexadecimal(part: &str, digits: usize) -> Option<u128> {
    let is_right = part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(part, 16).ok().filter(|_| is_right)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

crate::ids::string_conversions!(
    TraceParent,
    InvalidTraceParent,
    "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
);

/// The share of traces that is exported, where the client did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct SampleRatio(f64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sample ratio is a number from 0 to 1")]
pub struct InvalidRatio;

impl TryFrom<f64> for SampleRatio {
    type Error = InvalidRatio;

    fn try_from(number: f64) -> Result<Self, InvalidRatio> {
        if (0.0..=1.0).contains(&number) { Ok(Self(number)) } else { Err(InvalidRatio) }
    }
}

impl FromStr for SampleRatio {
    type Err = InvalidRatio;

    fn from_str(text: &str) -> Result<Self, InvalidRatio> {
        text.parse::<f64>().map_err(|_| InvalidRatio)?.try_into()
    }
}

impl SampleRatio {
    pub const ALL: Self = Self(1.0);

    /// Decides by the random bits of the id, so that all replicas agree.
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    fn samples(self, trace: u128) -> bool {
        ((trace & 0x00ff_ffff_ffff_ffff) as f64) < self.0 * (1_u64 << 56) as f64
    }
}

/// The trace of one run. Every replica derives it from the run's id and the client's `traceparent`, so nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTrace {
    pub id: u128,
    /// The client's span.
    pub parent: Option<u64>,
}

impl RunTrace {
    /// Returns none if the trace is not exported.
    pub fn of(run: RunId, parent_span: Option<TraceParent>, ratio: SampleRatio) -> Option<Self> {
        match parent_span {
            Some(TraceParent { trace, span, is_sampled }) => {
                is_sampled.then_some(Self { id: trace, parent: Some(span) })
            }
            None => Some(Self { id: run.number(), parent: None }).filter(|trace| ratio.samples(trace.id)),
        }
    }

    /// The parent for a worker's own spans: the dispatch of its job.
    pub fn for_worker(self, job: &JobId) -> TraceParent {
        TraceParent { trace: self.id, span: span_of(&job.to_string(), "dispatch"), is_sampled: true }
    }
}

/// The id of the span with this name for this run or job.
pub fn span_of(subject: &str, name: &str) -> u64 {
    let hash = blake3::hash(format!("{name} {subject}").as_bytes());
    let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    // Zero is not a valid span id.
    u64::from_be_bytes(first).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_round_trips() {
        let parent: TraceParent = TEXT.parse().unwrap();
        assert_eq!(
            (parent.trace, parent.span),
            (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
        );
        assert!(parent.is_sampled);
        assert_eq!(parent.to_string(), TEXT);
        assert!(!TEXT.replace("-01", "-00").parse::<TraceParent>().unwrap().is_sampled);
        assert!(TEXT.replace("00-4bf", "cc-4bf").replace("-01", "-01-more").parse::<TraceParent>().is_ok());
    }

    #[test]
    fn an_invalid_traceparent_is_rejected() {
        let zeros = TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        for text in [
            "",
            "00",
            &TEXT[1..],
            &TEXT.to_uppercase(),
            &format!("{TEXT}-x"),
            &format!("ff{}", &TEXT[2..]),
            &zeros,
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text}");
        }
    }

    #[test]
    fn the_clients_sampling_decision_wins_over_the_ratio() {
        let run = RunId::new(Timestamp::from_millis(1), [7; 10]);
        let parent: TraceParent = TEXT.parse().unwrap();
        let none: SampleRatio = "0".parse().unwrap();
        assert_eq!(RunTrace::of(run, Some(parent), none).unwrap().id, parent.trace);
        assert_eq!(
            RunTrace::of(run, Some(TraceParent { is_sampled: false, ..parent }), SampleRatio::ALL),
            None
        );
        assert_eq!(RunTrace::of(run, None, SampleRatio::ALL).unwrap().id, run.number());
        assert_eq!(RunTrace::of(run, None, none), None);
        assert!("1.1".parse::<SampleRatio>().is_err() && "x".parse::<SampleRatio>().is_err());
    }

    #[test]
    fn a_ratio_samples_its_share() {
        let half: SampleRatio = "0.5".parse().unwrap();
        let runs = (0..1_000_u32).map(|number| {
            let mut random = [0; 10];
            random.copy_from_slice(&blake3::hash(&number.to_be_bytes()).as_bytes()[..10]);
            RunId::new(Timestamp::from_millis(1), random)
        });
        let taken = runs.filter(|run| RunTrace::of(*run, None, half).is_some()).count();
        assert!((400..600).contains(&taken), "{taken}");
    }
}
