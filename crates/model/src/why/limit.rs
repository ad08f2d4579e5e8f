//! Why a limit keeps a start or a run waiting, in one sentence: answers of 202 and 429 and `why` share it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::admission::Usage;
use crate::limit::document::Pause;
use crate::limit::group::{Fullness, Quiet};
use crate::limit::place::Blocked;
use crate::limit::rule::SlotClaim;
use crate::limit::{GroupKey, TENANT_RUNS};
use crate::tenant::SlotFlow;
use crate::{RunId, StepKey, Timestamp};

crate::named_enum! {
    /// In one word, what a limit does to a start.
    pub enum LimitReason {
        /// It starts by itself when its turn comes.
        Queued = "queued",
        /// It waits for a person: the limit is paused.
        Blocked = "blocked",
        /// It can never start, as the limit is now.
        Impossible = "impossible",
        /// It starts by itself when no newer start has come for a while.
        Debounced = "debounced",
    }
}

/// What has become of a start that met a full limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Its run waits. Without a position it is further back than is counted.
    Queued {
        position: Option<u64>,
    },
    Rejected,
    /// Rejected, because as many runs wait as may.
    QueueFull,
}

/// The run that has held a slot longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotOwner {
    pub run: RunId,
    pub since: Timestamp,
    /// What it does now.
    pub step: Option<StepKey>,
}

/// A start that met a full limit, with what is known of the limit.
#[derive(Debug, Clone, Copy)]
pub struct LimitWait<'a> {
    pub blocked: &'a Blocked,
    pub outcome: WaitOutcome,
    pub now: Timestamp,
    /// Answers to starts are made without looking for it.
    pub oldest: Option<&'a SlotOwner>,
    pub pause: Option<&'a Pause>,
}

impl Blocked {
    pub fn reason(&self) -> LimitReason {
        match self.fullness {
            Fullness::Paused => LimitReason::Blocked,
            Fullness::Slots if self.runs_max == Some(0) => LimitReason::Impossible,
            Fullness::Slots | Fullness::Rate { .. } | Fullness::Others => LimitReason::Queued,
            Fullness::Quiet(_) => LimitReason::Debounced,
        }
    }

    /// When the run at this position starts, by the mean time between two released slots. None: nothing is known.
    pub fn expected_wait(&self, position: u64, now: Timestamp) -> Option<Duration> {
        match self.fullness {
            Fullness::Rate { next_at } => (position == 1).then(|| next_at.since(now)),
            Fullness::Paused | Fullness::Quiet(_) => None,
            Fullness::Slots | Fullness::Others => {
                let ahead = u32::try_from(position).unwrap_or(u32::MAX);
                let interval = self.slot_flow.expected_wait().filter(|_| self.runs_max != Some(0))?;
                Some(interval.saturating_mul(ahead))
            }
        }
    }

    /// Whether it is the cap of the tenant.
    pub fn is_of_tenant(&self) -> bool {
        self.limit.as_str() == TENANT_RUNS
    }
}

/// The tenant's own slots, as an obstacle.
pub fn of_tenant(usage: Usage, slot_flow: SlotFlow) -> Blocked {
    let Usage { runs_active, runs_max } = usage;
    Blocked {
        limit: SlotClaim::tenant_runs().limit,
        group: GroupKey::default(),
        fullness: if runs_active < runs_max { Fullness::Others } else { Fullness::Slots },
        live: runs_active,
        runs_max: Some(runs_max),
        queued: 0,
        slot_flow,
    }
}

impl LimitWait<'_> {
    /// What it waits for, how much of that is used, who has held it longest, its position, and what would help.
    pub fn sentence(&self) -> String {
        let obstacle =
            if self.outcome == WaitOutcome::QueueFull { self.full_queue() } else { self.obstacle() };
        let mut text = format!("{}: {obstacle}.", self.headline());
        // Writing into a string does not fail.
        if let Some(SlotOwner { run, since, step }) = self.oldest {
            let _ = write!(text, " Held by run `{run}` for {}", about(self.now.since(*since)));
            if let Some(step) = step {
                let _ = write!(text, " (step `{step}`)");
            }
            text.push('.');
        }
        if let WaitOutcome::Queued { position: Some(position) } = self.outcome {
            let _ = write!(text, " {}.", self.place(position));
        }
        if let Some(help) = self.help() {
            let _ = write!(text, " {help}");
        }
        text
    }

    fn headline(&self) -> &'static str {
        match (self.blocked.reason(), self.outcome) {
            (LimitReason::Impossible, _) => "Cannot start",
            (_, WaitOutcome::Rejected | WaitOutcome::QueueFull) => "Rejected",
            (LimitReason::Blocked, WaitOutcome::Queued { .. }) => "Blocked",
            (LimitReason::Queued, WaitOutcome::Queued { .. }) => "Queued",
            (LimitReason::Debounced, WaitOutcome::Queued { .. }) => "Debounced",
        }
    }

    /// The limit, and how much of it is used.
    fn obstacle(&self) -> String {
        let Blocked { live, runs_max, fullness, .. } = self.blocked;
        let name = self.name();
        match fullness {
            Fullness::Slots if *runs_max == Some(0) => format!("{name} allows 0 runs"),
            Fullness::Slots if self.blocked.is_of_tenant() => {
                format!("the tenant has {live} of {} runs", runs_max.unwrap_or_default())
            }
            Fullness::Slots => format!("{name} is full ({live} of {})", runs_max.unwrap_or_default()),
            Fullness::Rate { next_at } => {
                format!("{name} is at its rate; the next start is free in {}", about(next_at.since(self.now)))
            }
            Fullness::Paused => match self.pause {
                None => format!("{name} is paused"),
                Some(Pause { by, at, reason }) => {
                    let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason:?}"));
                    format!("{name} was paused by `{by}` {} ago{reason}", about(self.now.since(*at)))
                }
            },
            Fullness::Others => format!("the free slots of {name} are promised to runs that wait already"),
            Fullness::Quiet(Quiet { until, latest, starts }) => {
                let starts = if *starts == 1 { "1 start".to_owned() } else { format!("{starts} starts") };
                format!(
                    "the run stands for {starts} in {name} and goes on at {until} unless a newer one comes, \
                     at {latest} at the latest"
                )
            }
        }
    }

    fn full_queue(&self) -> String {
        match self.blocked.queued {
            _ if self.is_out_of_keys() => {
                format!("the run of {} answers for as many idempotency keys as it may", self.name())
            }
            1 => format!("1 run waits for {}, as many as may", self.name()),
            queued => format!("{queued} runs wait for {}, as many as may", self.name()),
        }
    }

    /// A run would answer for the start, and stands for as many keys as it may.
    fn is_out_of_keys(&self) -> bool {
        self.blocked.queued == 0 || matches!(self.blocked.fullness, Fullness::Quiet(_))
    }

    fn name(&self) -> String {
        let Blocked { limit, group, .. } = self.blocked;
        match group.as_str() {
            "" => format!("limit `{limit}`"),
            group => format!("limit `{limit}` for `{group}`"),
        }
    }

    fn place(&self, position: u64) -> String {
        let place = format!("{} in the queue", ordinal(position));
        let interval = self.blocked.slot_flow.expected_wait();
        match (self.blocked.fullness, self.blocked.expected_wait(position, self.now), interval) {
            (Fullness::Slots | Fullness::Others, Some(wait), Some(interval)) => {
                let (wait, interval) = (about(wait), about(interval));
                format!("{place}, for about {wait} (a slot comes free every {interval} on average)")
            }
            _ => place,
        }
    }

    /// The command that would end the wait.
    fn help(&self) -> Option<String> {
        let Blocked { limit, runs_max, queued, fullness, .. } = self.blocked;
        if self.outcome == WaitOutcome::QueueFull {
            let queue_max = queued.saturating_mul(2);
            let more = format!("Let more wait: `interlock limits set {limit} --queue-max {queue_max}`");
            return (!self.is_out_of_keys()).then_some(more);
        }
        match fullness {
            Fullness::Paused => Some(format!("Resume it: `interlock limits resume {limit}`")),
            Fullness::Slots => {
                let more = runs_max.unwrap_or_default().saturating_add(1);
                let raise = format!("Raise it: `interlock limits set {limit} --max-runs {more}`");
                let waits = self.outcome != WaitOutcome::Rejected;
                Some(if waits {
                    raise
                } else {
                    format!("{raise}, or let starts wait: `interlock limits set {limit} --on-full queue`")
                })
            }
            Fullness::Rate { .. } | Fullness::Others | Fullness::Quiet(_) => None,
        }
    }
}

/// A time for people: one number with its unit.
pub fn about(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }

    fn blocked(limit: &str, group: &str, fullness: Fullness, (live, most): (u32, u32)) -> Blocked {
        Blocked {
            limit: limit.parse().unwrap(),
            group: group.parse().unwrap(),
            fullness,
            live,
            runs_max: Some(most),
            queued: 2,
            slot_flow: SlotFlow::default(),
        }
    }

    fn wait(blocked: &Blocked, outcome: WaitOutcome) -> LimitWait<'_> {
        LimitWait { blocked, outcome, now: now(), oldest: None, pause: None }
    }

    fn says(blocked: &Blocked, outcome: WaitOutcome) -> String {
        wait(blocked, outcome).sentence()
    }

    const THIRD: WaitOutcome = WaitOutcome::Queued { position: Some(3) };

    #[test]
    fn a_sentence_has_the_limit_the_holder_the_place_and_what_helps() {
        let mut full = blocked("per-repo", "acme/api", Fullness::Slots, (1, 1));
        full.slot_flow = SlotFlow { since: None, releases: 32, time: 240_000 * 32 };
        let run: RunId = "01234567-89ab-7def-8123-456789abcdef".parse().unwrap();
        let since = Timestamp::from_millis(now().as_millis() - 720_000);
        let owner = SlotOwner { run, since, step: Some("test".parse().unwrap()) };
        let expected = format!(
            "Queued: limit `per-repo` for `acme/api` is full (1 of 1). Held by run `{run}` for 12 min (step `test`). \
             3rd in the queue, for about 12 min (a slot comes free every 4 min on average). \
             Raise it: `interlock limits set per-repo --max-runs 2`"
        );
        assert_eq!(LimitWait { oldest: Some(&owner), ..wait(&full, THIRD) }.sentence(), expected);
        // An answer to a start says the same without the holder.
        let held = format!(" Held by run `{run}` for 12 min (step `test`).");
        assert_eq!(says(&full, THIRD), expected.replace(&held, ""));
    }

    #[test]
    fn every_kind_of_fullness_has_its_sentence() {
        let next_at = Timestamp::from_millis(now().as_millis() + 8_000);
        let table = [
            (
                blocked("starts", "", Fullness::Rate { next_at }, (4, 9)),
                THIRD,
                "Queued: limit `starts` is at its rate; the next start is free in 8 s. 3rd in the queue.",
            ),
            (
                blocked("gpu", "", Fullness::Slots, (0, 0)),
                WaitOutcome::Queued { position: None },
                "Cannot start: limit `gpu` allows 0 runs. Raise it: `interlock limits set gpu --max-runs 1`",
            ),
            (
                blocked("gpu", "", Fullness::Others, (1, 2)),
                THIRD,
                "Queued: the free slots of limit `gpu` are promised to runs that wait already. 3rd in the queue.",
            ),
            (
                blocked("gpu", "a", Fullness::Slots, (2, 2)),
                WaitOutcome::QueueFull,
                "Rejected: 2 runs wait for limit `gpu` for `a`, as many as may. \
                 Let more wait: `interlock limits set gpu --queue-max 4`",
            ),
            (
                blocked("tenant-runs", "", Fullness::Slots, (20, 20)),
                WaitOutcome::Rejected,
                "Rejected: the tenant has 20 of 20 runs. Raise it: `interlock limits set tenant-runs --max-runs 21`, \
                 or let starts wait: `interlock limits set tenant-runs --on-full queue`",
            ),
        ];
        for (blocked, outcome, expected) in table {
            assert_eq!(says(&blocked, outcome), expected);
        }
    }

    #[test]
    fn a_debounced_run_says_until_when_it_waits_and_for_which_starts_it_stands() {
        let at = |seconds: u64| Timestamp::from_millis(now().as_millis() + seconds * 1_000);
        let quiet = |starts| Fullness::Quiet(Quiet { until: at(5), latest: at(60), starts });
        let debounced = |starts| blocked("per-repo", "acme/api", quiet(starts), (0, 1));
        assert_eq!(debounced(1).reason(), LimitReason::Debounced);
        assert_eq!(
            says(&debounced(3), WaitOutcome::Queued { position: None }),
            "Debounced: the run stands for 3 starts in limit `per-repo` for `acme/api` and goes on at \
             2023-11-14T22:13:25.000Z unless a newer one comes, at 2023-11-14T22:14:20.000Z at the latest."
        );
        assert_eq!(
            says(&debounced(1), WaitOutcome::QueueFull),
            "Rejected: the run of limit `per-repo` for `acme/api` answers for as many idempotency keys as it may."
        );
    }

    #[test]
    fn a_paused_limit_blocks_and_says_who_paused_it() {
        let paused = blocked("deploys", "", Fullness::Paused, (0, 2));
        assert_eq!(paused.reason(), LimitReason::Blocked);
        let bare = "Blocked: limit `deploys` is paused. 3rd in the queue. Resume it: `interlock limits resume deploys`";
        assert_eq!(says(&paused, THIRD), bare);
        let at = Timestamp::from_millis(now().as_millis() - 7_200_000);
        let pause = Pause { by: "lea".to_owned(), at, reason: Some("bad release".to_owned()) };
        let sentence = LimitWait { pause: Some(&pause), ..wait(&paused, THIRD) }.sentence();
        assert!(
            sentence.starts_with("Blocked: limit `deploys` was paused by `lea` 2 h ago: \"bad release\". ")
        );
    }

    #[test]
    fn a_wait_is_only_expected_where_something_is_known() {
        let mut full = blocked("gpu", "", Fullness::Slots, (2, 2));
        assert_eq!(full.expected_wait(3, now()), None);
        full.slot_flow = SlotFlow { since: None, releases: 64, time: 4_000 * 32 };
        assert_eq!(full.expected_wait(3, now()), Some(Duration::from_secs(6)));
        full.fullness = Fullness::Paused;
        assert_eq!(full.expected_wait(3, now()), None);
        full.fullness = Fullness::Rate { next_at: Timestamp::from_millis(now().as_millis() + 5) };
        assert_eq!(full.expected_wait(1, now()), Some(Duration::from_millis(5)));
        assert_eq!(full.expected_wait(2, now()), None);
    }

    #[test]
    fn places_and_times_read_as_people_write_them() {
        let places: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(ordinal).to_vec();
        assert_eq!(places.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 113th");
        let times = [5, 1_000, 119_999, 120_000, 7_200_000, 172_800_000];
        let times: Vec<_> = times.map(|ms| about(Duration::from_millis(ms))).to_vec();
        assert_eq!(times.join(" "), "5 ms 1 s 119 s 2 min 2 h 2 d");
    }
}
