//! Named limits: what may run at once, how fast, and who waits.

use std::collections::BTreeMap;

use clap::Args;
use interlock_api::Code;
use interlock_api::named_limits::{
    ExplainRequest, ExplainView, LimitView, MatchedLimit, PauseRequest, PauseView,
};
use interlock_model::limit::document::{
    AppliesTo, CountedRuns, LimitDocument, OnFull, QueueDocument, QueueOrder, RateDocument,
};

use super::super::durations;
use super::super::{Session, run};
use super::of_system;
use crate::arguments::{ListFlags, one_of};
use crate::exit::{Failure, Result};
use crate::input;
use crate::output::{Column, fields, grid, or_dash, pretty, table};

/// Flags of a named limit.
#[derive(Debug, Default, Args)]
pub(crate) struct NamedChange {
    /// Replace the whole limit by the document in FILE; `-` for standard input
    #[arg(long, value_name = "FILE", help_heading = "Named limit")]
    file: Option<String>,
    /// Let at most N runs of a group be live; 0 lets none start
    #[arg(long, value_name = "N", help_heading = "Named limit")]
    max_runs: Option<u32>,
    /// Let at most STARTS of a group pass in PERIOD, such as 100/1m
    #[arg(long, value_name = "STARTS/PERIOD", value_parser = rate, help_heading = "Named limit")]
    rate: Option<(u32, u32)>,
    /// Let at most N starts of the rate come at once
    #[arg(long, value_name = "N", help_heading = "Named limit")]
    burst: Option<u32>,
    /// Expression over input, workflow and labels: starts with the same value share a group
    #[arg(long, value_name = "EXPRESSION", help_heading = "Named limit")]
    key: Option<String>,
    /// Apply it to this workflow, or to those that begin so (`deploy-*`); repeatable
    #[arg(long, value_name = "WORKFLOW", help_heading = "Named limit")]
    workflow: Vec<String>,
    /// With --on-full debounce: start a run when no newer start has come for DURATION, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = seconds, help_heading = "Named limit")]
    quiet: Option<u32>,
    /// With --on-full debounce: let newer starts delay a run by at most DURATION
    #[arg(long, value_name = "DURATION", value_parser = seconds, help_heading = "Named limit")]
    max_delay: Option<u32>,
    /// What happens to a start that finds it full
    #[arg(long, value_parser = one_of(OnFull::ALL, OnFull::name), help_heading = "Named limit")]
    on_full: Option<OnFull>,
    /// Let at most N runs of a group wait
    #[arg(long, value_name = "N", help_heading = "Named limit")]
    queue_max: Option<u32>,
    /// Let a run wait for at most DURATION, such as 90s or 12h
    #[arg(long, value_name = "DURATION", value_parser = seconds, help_heading = "Named limit")]
    max_wait: Option<u32>,
    /// Who goes first among the runs that wait
    #[arg(long, value_parser = one_of(QueueOrder::ALL, QueueOrder::name), help_heading = "Named limit")]
    order: Option<QueueOrder>,
    /// With `--order fair`: expression over input, workflow and labels, whose values share the slots
    #[arg(long, value_name = "EXPRESSION", help_heading = "Named limit")]
    fair_by: Option<String>,
    /// With `--order fair`: share of a value, from 1 to 1000; repeatable
    #[arg(long, value_name = "VALUE=N", value_parser = weight, help_heading = "Named limit")]
    weight: Vec<(String, u32)>,
    /// Which runs it counts: `all` counts children, too, and needs --max-wait
    #[arg(long, value_parser = one_of(CountedRuns::ALL, CountedRuns::name), help_heading = "Named limit")]
    count: Option<CountedRuns>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseFlags {
    /// Name of the limit; `tenant-runs` pauses the tenant
    name: String,
    /// Reason, shown to those who wait
    #[arg(long)]
    reason: Option<String>,
    /// The system's: pause it in every tenant
    #[arg(long)]
    system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainFlags {
    /// Workflow id
    workflow: String,
    /// Input of the run: JSON, `@FILE`, or `-` for standard input
    #[arg(long, short, value_name = "JSON")]
    input: Option<String>,
    /// Label of the run; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = run::label)]
    label: Vec<(String, String)>,
}

fn seconds(text: &str) -> std::result::Result<u32, String> {
    let millis = durations::milliseconds(text)?;
    let seconds = u32::try_from(millis / 1_000).ok().filter(|seconds| *seconds > 0 && millis % 1_000 == 0);
    seconds.ok_or_else(|| "expected a whole number of seconds".to_owned())
}

fn rate(text: &str) -> std::result::Result<(u32, u32), String> {
    let wrong = || "expected STARTS/PERIOD, such as 100/1m".to_owned();
    let (starts, period) = text.split_once('/').ok_or_else(wrong)?;
    Ok((starts.parse().map_err(|_| wrong())?, seconds(period)?))
}

fn weight(text: &str) -> std::result::Result<(String, u32), String> {
    let wrong = || "expected VALUE=N, such as vip=3".to_owned();
    let (group, weight) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((group.to_owned(), weight.parse().map_err(|_| wrong())?))
}

impl NamedChange {
    pub(super) fn is_given(&self) -> bool {
        let Self { file, max_runs, rate, burst, key, workflow, on_full, count, .. } = self;
        let has_text = file.is_some() || key.is_some() || !workflow.is_empty();
        let has_number = max_runs.is_some() || rate.is_some() || burst.is_some();
        let has_delay = self.quiet.is_some() || self.max_delay.is_some();
        has_text || has_number || has_delay || on_full.is_some() || count.is_some() || self.changes_queue()
    }

    fn changes_queue(&self) -> bool {
        let Self { queue_max, max_wait, order, fair_by, weight, .. } = self;
        let has_order = order.is_some() || fair_by.is_some() || !weight.is_empty();
        queue_max.is_some() || max_wait.is_some() || has_order
    }

    /// The document with what the flags say.
    fn over(self, mut document: LimitDocument) -> Result<LimitDocument> {
        let changes_queue = self.changes_queue();
        let Self { max_runs, rate, burst, key, workflow, on_full, queue_max, max_wait, count, .. } = self;
        document.quiet_sec = self.quiet.or(document.quiet_sec);
        document.max_delay_sec = self.max_delay.or(document.max_delay_sec);
        if on_full.is_some_and(|on_full| on_full != OnFull::Debounce) {
            (document.quiet_sec, document.max_delay_sec) = (self.quiet, self.max_delay);
        }
        document.max_runs = max_runs.or(document.max_runs);
        document.key = key.or(document.key);
        if !workflow.is_empty() {
            document.applies_to = Some(AppliesTo { workflows: workflow });
        }
        if let Some((starts, period_sec)) = rate {
            document.rate = Some(RateDocument { starts, period_sec, burst: None });
        }
        if burst.is_some() {
            let rate = document.rate.as_mut();
            rate.ok_or_else(|| Failure::Usage("--burst belongs to a rate: add --rate".to_owned()))?.burst =
                burst;
        }
        document.on_full = on_full.unwrap_or(document.on_full);
        document.count = count.unwrap_or(document.count);
        let waits_nowhere =
            document.count == CountedRuns::Root && matches!(on_full, Some(OnFull::Reject | OnFull::Join));
        if changes_queue {
            let queue = document.queue.get_or_insert_default();
            queue.max = queue_max.or(queue.max);
            queue.max_wait_sec = max_wait.or(queue.max_wait_sec);
            if let Some(order) = self.order.filter(|order| *order != queue.order) {
                // The shares belong to the order.
                *queue = QueueDocument { order, fair_by: None, weights: BTreeMap::new(), ..queue.clone() };
            }
            queue.fair_by = self.fair_by.or(queue.fair_by.take());
            queue.weights.extend(self.weight);
        } else if waits_nowhere {
            document.queue = None;
        }
        Ok(document)
    }
}

/// The document that the flags make, and the revision that it replaces. `before`: reads the limit; none: it is new.
pub(super) async fn changed(
    mut change: NamedChange,
    before: impl AsyncFnOnce() -> interlock_api::client::Result<(LimitDocument, u64)>,
) -> Result<(LimitDocument, Option<u64>)> {
    match change.file.take() {
        Some(_) if change.is_given() => {
            Err(Failure::Usage("--file has the whole limit: leave the other flags out".to_owned()))
        }
        Some(file) => {
            let document = serde_json::from_value(input::json_file(&file)?)
                .map_err(|error| Failure::Usage(format!("{file} is not a limit: {error}")))?;
            Ok((document, None))
        }
        None => {
            let (before, revision) = match before().await {
                Ok(found) => found,
                Err(error) if error.code() == Some(Code::NotFound) => (LimitDocument::default(), 0),
                Err(error) => return Err(error.into()),
            };
            // Not over a change that came meanwhile.
            Ok((change.over(before)?, Some(revision)))
        }
    }
}

pub(super) async fn set(name: &str, change: NamedChange, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    let before = async || client.limit(name).await.map(|view| (view.document, view.revision));
    let (document, revision) = changed(change, before).await?;
    let saved = client.save_limit(name, &document, revision).await?;
    output.result(&saved, |saved| format!("limit {} in force:\n{}", saved.name, pretty(&saved.document)))
}

pub(super) async fn list(listing: ListFlags, session: &Session) -> Result<()> {
    session.list(listing, &COLUMNS, async |page| session.client.limits(&page).await).await
}

pub(super) async fn show(name: &str, session: &Session) -> Result<()> {
    session.output.result(&session.client.limit(name).await?, describe)
}

pub(super) async fn delete(name: &str, session: &Session) -> Result<()> {
    session.client.delete_limit(name).await?;
    let value = serde_json::json!({"name": name, "deleted": true});
    session.output.done(&value, &format!("limit {name} deleted"))
}

pub(super) async fn pause(flags: PauseFlags, session: &Session) -> Result<()> {
    let PauseFlags { name, reason, system } = flags;
    if system {
        return of_system::pause(&name, PauseRequest { reason }, session).await;
    }
    session.output.result(&session.client.pause_limit(&name, &PauseRequest { reason }).await?, describe)
}

pub(super) async fn resume(name: &str, session: &Session) -> Result<()> {
    session.output.result(&session.client.resume_limit(name).await?, describe)
}

pub(super) async fn explain(flags: ExplainFlags, session: &Session) -> Result<()> {
    let ExplainFlags { workflow, input, label } = flags;
    let workflow = workflow.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let input = input.as_deref().map(input::json_argument).transpose()?;
    let request = ExplainRequest { workflow, input, labels: label.into_iter().collect() };
    session.output.result(&session.client.explain_limits(&request).await?, explained)
}

const COLUMNS: [Column<LimitView>; 5] = [
    ("LIMIT", |limit| limit.name.to_string()),
    ("USED", usage),
    ("ON FULL", |limit| limit.document.on_full.name().to_owned()),
    ("KEY", |limit| or_dash(limit.document.key.as_ref())),
    ("PAUSED BY", |limit| or_dash(limit.paused.as_ref().map(|pause| &pause.by))),
];

/// `3/5 (+12 queued)`. With a key the maximum is that of each group.
fn usage(limit: &LimitView) -> String {
    let (used, groups) = (limit.usage, limit.groups.len());
    let live = match (used.max_runs, &limit.document.key) {
        (None, _) => format!("{} live", used.live),
        (Some(most), None) => format!("{}/{most}", used.live),
        (Some(most), Some(_)) => format!("{} in {groups} groups of {most}", used.live),
    };
    let mut text = live;
    for (count, how) in [(used.queued, "queued"), (used.debounced, "debounced")] {
        if count > 0 {
            text = format!("{text} (+{count} {how})");
        }
    }
    text
}

pub(super) fn paused(pause: &PauseView) -> String {
    let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("by {} at {}{reason}", pause.by, pause.at)
}

fn describe(limit: &LimitView) -> String {
    let paused = limit.paused.as_ref().map(paused);
    let head = fields(&[
        ("limit", Some(limit.name.to_string())),
        ("used", Some(usage(limit))),
        ("paused", paused),
        ("revision", Some(limit.revision.to_string())),
    ]);
    let document = pretty(&limit.document);
    let groups = limit.groups.iter().filter(|group| group.group.is_some()).map(|group| {
        let counts = [group.live, group.queued, group.debounced].map(|count| count.to_string());
        [or_dash(group.group.as_ref())].into_iter().chain(counts).collect()
    });
    let groups: Vec<_> = groups.collect();
    if groups.is_empty() {
        return format!("{head}\n\n{document}");
    }
    format!("{head}\n\n{document}\n\n{}", grid(&["GROUP", "LIVE", "QUEUED", "DEBOUNCED"], groups))
}

const MATCHED: [Column<MatchedLimit>; 5] = [
    ("LIMIT", |limit| limit.limit.to_string()),
    ("GROUP", |limit| or_dash(limit.group.as_ref())),
    ("USED", |limit| {
        let most = limit.max_runs.map_or_else(String::new, |most| format!("/{most}"));
        let queued = if limit.queued == 0 { String::new() } else { format!(" (+{} queued)", limit.queued) };
        format!("{}{most}{queued}", limit.live)
    }),
    ("ON FULL", |limit| limit.on_full.name().to_owned()),
    ("FULL", |limit| limit.full.map_or_else(|| "no".to_owned(), |full| interlock_api::schema::name(&full))),
];

fn explained(view: &ExplainView) -> String {
    let outcome = interlock_api::schema::name(&view.outcome);
    let mut text = format!("{outcome}: {}\n\n{}", view.detail, table(&MATCHED, &view.limits));
    for warning in &view.warnings {
        text = format!("{text}\n\nwarning: {warning}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(document: &serde_json::Value, live: u64, queued: u64) -> LimitView {
        let max_runs = document["max_runs"].clone();
        serde_json::from_value(
            json!({"name": "gpu", "scope": "org", "document": document, "revision": 1, "paused": null,
            "usage": {"live": live, "queued": queued, "max_runs": max_runs, "has_more": false},
            "groups": [{"group": "a", "live": live, "queued": queued}]}),
        )
        .unwrap()
    }

    #[test]
    fn usage_reads_as_a_fraction_with_those_who_wait() {
        assert_eq!(usage(&view(&json!({"max_runs": 5}), 3, 12)), "3/5 (+12 queued)");
        assert_eq!(usage(&view(&json!({"max_runs": 5}), 0, 0)), "0/5");
        assert_eq!(
            usage(&view(&json!({"max_runs": 1, "key": "input.x"}), 1, 2)),
            "1 in 1 groups of 1 (+2 queued)"
        );
        assert_eq!(usage(&view(&json!({"rate": {"starts": 1, "period_sec": 1}}), 4, 0)), "4 live");
    }

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let before: LimitDocument = serde_json::from_value(
            json!({"key": "input.repo", "max_runs": 1, "on_full": "queue", "queue": {"max": 5, "max_wait_sec": 60}}),
        )
        .unwrap();
        let raised =
            NamedChange { max_runs: Some(2), ..NamedChange::default() }.over(before.clone()).unwrap();
        assert_eq!(raised, LimitDocument { max_runs: Some(2), ..before.clone() });
        let queue =
            NamedChange { queue_max: Some(9), ..NamedChange::default() }.over(before.clone()).unwrap().queue;
        assert_eq!(queue.map(|queue| (queue.max, queue.max_wait_sec)), Some((Some(9), Some(60))));
        let (order, fair_by) = (Some(QueueOrder::Fair), Some("input.user".to_owned()));
        let weight = vec![("vip".to_owned(), 3)];
        let fair =
            NamedChange { order, fair_by, weight, ..NamedChange::default() }.over(before.clone()).unwrap();
        let queue = json!({"max": 5, "max_wait_sec": 60, "order": "fair", "fair_by": "input.user", "weights": {"vip": 3}});
        assert_eq!(serde_json::to_value(fair.queue.clone()).unwrap(), queue);
        let order = Some(QueueOrder::Fifo);
        let fifo = NamedChange { order, ..NamedChange::default() }.over(fair).unwrap().queue;
        assert_eq!(fifo.map(|queue| (queue.fair_by, queue.weights.len())), Some((None, 0)));
        let rejects = NamedChange { on_full: Some(OnFull::Reject), ..NamedChange::default() };
        assert_eq!(rejects.over(before.clone()).unwrap().queue, None, "one that rejects has no queue");
        let change =
            NamedChange { on_full: Some(OnFull::Debounce), quiet: Some(5), ..NamedChange::default() };
        let calm = change.over(before.clone()).unwrap();
        assert_eq!((calm.quiet_sec, calm.max_delay_sec), (Some(5), None));
        let queues = NamedChange { on_full: Some(OnFull::Queue), ..NamedChange::default() };
        assert_eq!(queues.over(calm).unwrap().quiet_sec, None, "one that queues waits for no newer start");
        assert!(NamedChange { burst: Some(2), ..NamedChange::default() }.over(before).is_err());
    }

    #[test]
    fn a_rate_is_a_number_of_starts_and_a_period() {
        assert_eq!(rate("100/1m"), Ok((100, 60)));
        assert_eq!(seconds("90s"), Ok(90));
        for bad in ["100", "100/", "/1m", "x/1m", "1/500ms", "1/0s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
