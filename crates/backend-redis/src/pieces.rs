//! Shared pieces of Lua. Each script, and each piece, names those that it needs in its first line:
//! `-- needs: fence, queue`. It may also name some within a function that most calls do not reach.

use interlock_backend::dead_letters::DROPPED_AT_ONCE_MAX;
use interlock_backend::inspection::{DEAD_LETTERS_REPORTED_FROM, KEYS_JUDGED_FOR};
use interlock_backend::keys::{KEYS_MAX, KEYS_PER_TENANT_MAX};
use interlock_backend::limits::{
    DEBOUNCED_AMONG_MAX, GRANT_STEPS_MAX, GROUPS_LOOKED_AT, GROUPS_SHOWN, JOINED_AMONG_MAX,
};
use interlock_backend::locks::{LINE_SHOWN_MAX, SWEEP_MAX};
use interlock_backend::runs::READY_BYTES_MAX;
use interlock_backend::{deliveries, documents, jobs, reconcile, registry};
use interlock_model::budget::{self, Amount};
use interlock_model::event::{KEPT_OF_KEY_MAX, KEYED_MAX, RUN_EVENTS_MAX, SPREAD_AT_ONCE_MAX, UNTAKEN_MAX};
use interlock_model::limit::fair;
use interlock_model::limit::owner::SYSTEM_LIMITS_MAX;
use interlock_model::limit::place::{JOINED_KEYS_MAX, POSITIONS_COUNTED, PRIORITY_SCORES, TIME_SCORES};
use interlock_model::limit::rule::LIMITS_MAX;
use interlock_model::limit::{
    QUEUE_WAIT_DEFAULT, QUEUED_MAX_DEFAULT, RUN_BYTES_DEFAULT, TURN_BYTES_DEFAULT, WORKERS_MAX_DEFAULT,
    WORKFLOW_VERSIONS_MAX_DEFAULT, WORKFLOWS_MAX_DEFAULT,
};
use interlock_model::lock::{HISTORY_KEPT, HISTORY_MAX, SHARING_MAX};
use interlock_model::queue::KINDS_MAX;
use interlock_model::run::SUSPECT_FROM;
use interlock_model::time::millis;

use crate::encode;
use crate::pulse::GONE_AFTER;

macro_rules! files {
    ($list:ident in $folder:literal: $($name:literal),*) => {
        pub(crate) const $list: &[(&str, &str)] =
            &[$(($name, include_str!(concat!($folder, $name, ".lua")))),*];
    };
}

files! { SCRIPTS in "lua/":
    "abandon_worker", "acquire_child_starts", "acquire_deferred_results", "acquire_held_jobs", "acquire_lock",
    "acquire_ready_runs", "acquire_run", "acquire_suspect", "add_dead_letter", "adjust_budget", "admit",
    "adopt_system_limits",
    "begin_text", "begin_try", "cancel_job", "claim",
    "commit", "count_dead_letters", "count_jobs_before", "count_runs", "create_api_key", "defer_result",
    "delete_budget", "delete_dead_letter", "delete_figures", "delete_limit", "delete_run", "delete_workflow",
    "deliver_result", "drain_nats_worker", "drain_worker", "expire_leases", "expire_permits", "extend_job_lease",
    "extend_run_lease", "find_due", "fire_timers", "forget_nats_worker", "forget_worker", "inspect",
    "inspect_documents", "inspect_locks", "inspect_runs", "inspect_unlisted", "list_active_runs",
    "list_approvals", "list_budget_events", "list_budget_groups", "list_budgets", "list_dead_letters",
    "list_expired_leases", "list_jobs", "list_limits", "list_lock_history", "list_locks", "list_queued_runs",
    "list_runs", "list_slots", "list_tenant", "list_workers", "list_workflows", "move_queued_run", "pause_limit",
    "pulse", "read_budget", "read_dead_letter", "read_debounced_run", "read_document", "read_effective_limits",
    "read_figures", "read_job",
    "read_limit_usage", "read_limits", "read_lock", "read_queued_run", "read_registry", "read_run",
    "read_run_ownership", "read_run_statuses", "read_snapshot", "read_timeline", "read_usage", "read_worker",
    "read_workflow",
    "read_workflow_version", "record_beat", "record_progress", "record_result", "register_nats_worker",
    "release_idempotency_key", "release_lock", "release_permit", "release_run", "renew_lock", "renew_permit",
    "repair", "repair_locks", "repair_runs", "repair_slots", "request_cancel", "requeue_jobs", "reserve_budget",
    "reserve_idempotency_key", "resolve_approval", "retire", "retry_dead_letter", "revoke_api_key", "rhythms",
    "rotate_api_key", "save_budget", "save_document", "save_figures", "save_limit", "save_snapshot", "save_workflow",
    "send_event", "send_keyed_event", "set_limits", "settle_child_start", "settle_held_job", "settle_permit",
    "spread_events", "withdraw_lock"
}

files! { PIECES in "lua/shared/":
    "acquire", "admission_lock", "api_keys", "append", "approval_rules", "arrivals", "budget_queue",
    "budget_rules", "budgets",
    "call", "cancels", "child_rules", "children", "claims", "contradiction", "damage_rules", "dead_letters",
    "debounce", "event_rules", "events", "failures", "fair", "fence", "given", "grants",
    "groups", "held_lease", "idempotency", "inbox", "inspection", "job_lock", "job_rows", "job_rules", "job_view",
    "jobs", "judge", "key_rules", "lease_check", "ledger", "limit_change", "limit_rules", "lock_record", "lock_rules",
    "lock_view", "locks", "losses", "order", "page", "places", "quarantine", "queue", "quotas", "registry",
    "remembered", "repairs", "replacements", "reserving", "rule_pages", "run_bounds", "run_lock", "run_rules",
    "run_texts", "slot_flow",
    "slots", "snapshot", "starts", "status", "step_rules", "texts", "usage", "visible", "workers", "workflows",
    "written_limits"
}

/// Bounds of the contract, which scripts name as `limits.<name>`. Times are in milliseconds.
fn limits() -> [(&'static str, u64); 63] {
    [
        ("ahead_counted_max", budget::AHEAD_COUNTED_MAX as u64),
        ("amount_max", Amount::MAX.micros()),
        ("budget_events_max", budget::EVENTS_MAX as u64),
        ("budgets_max", budget::BUDGETS_MAX as u64),
        ("dead_letters_reported_from", DEAD_LETTERS_REPORTED_FROM as u64),
        ("debounced_among_max", DEBOUNCED_AMONG_MAX as u64),
        ("deferral", millis(deliveries::IN_PROGRESS)),
        ("dropped_max", DROPPED_AT_ONCE_MAX.into()),
        ("ended_permits_max", budget::ENDED_PERMITS_MAX.into()),
        ("expired_at_once_max", budget::EXPIRED_AT_ONCE_MAX as u64),
        ("fair_counted", fair::GROUPS_COUNTED as u64),
        ("fair_lane", fair::LANE),
        ("fair_remembered_max", fair::REMEMBERED_MAX.into()),
        ("gone_after", millis(GONE_AFTER)),
        ("grant_steps_max", GRANT_STEPS_MAX.into()),
        ("groups_looked_at", GROUPS_LOOKED_AT as u64),
        ("groups_max", budget::GROUPS_MAX.into()),
        ("groups_shown", GROUPS_SHOWN as u64),
        ("history_kept", millis(HISTORY_KEPT)),
        ("history_max", HISTORY_MAX as u64),
        ("increases_max", budget::INCREASES_MAX as u64),
        ("jobs_before_max", jobs::JOBS_BEFORE_MAX as u64),
        ("joined_among_max", JOINED_AMONG_MAX as u64),
        ("joined_keys_max", JOINED_KEYS_MAX.into()),
        ("kept_of_key_max", KEPT_OF_KEY_MAX.into()),
        ("keyed_event_bytes_max", KEYED_MAX.bytes),
        ("keyed_events_max", KEYED_MAX.count.into()),
        ("keys_judged_for", millis(KEYS_JUDGED_FOR)),
        ("keys_max", KEYS_MAX as u64),
        ("keys_per_tenant_max", KEYS_PER_TENANT_MAX as u64),
        ("kinds_max", KINDS_MAX as u64),
        ("ledger_checked_every", millis(budget::GROUP_CHECKED_EVERY)),
        ("limits_max", LIMITS_MAX.into()),
        ("line_shown_max", LINE_SHOWN_MAX as u64),
        ("looked_at_max", reconcile::LOOKED_AT_MAX as u64),
        ("members_max", documents::MEMBERS_MAX as u64),
        ("open_permits_max", budget::OPEN_PERMITS_MAX.into()),
        ("positions_counted", POSITIONS_COUNTED as u64),
        ("priority_scores", PRIORITY_SCORES),
        ("progress_rows_max", jobs::PROGRESS_ROWS_MAX),
        ("queue_wait_default", millis(QUEUE_WAIT_DEFAULT)),
        ("queued_default", QUEUED_MAX_DEFAULT.into()),
        ("ready_bytes_max", READY_BYTES_MAX as u64),
        ("reordered_at_once", fair::REORDERED_AT_ONCE as u64),
        ("run_bytes_default", RUN_BYTES_DEFAULT),
        ("run_events_max", RUN_EVENTS_MAX.into()),
        ("run_ms_unknown", fair::RUN_MS_UNKNOWN),
        ("settled_kept", millis(budget::SETTLED_KEPT)),
        ("sharing_max", SHARING_MAX as u64),
        ("spread_at_once_max", SPREAD_AT_ONCE_MAX.into()),
        ("suspect_from", SUSPECT_FROM.into()),
        ("sweep_max", SWEEP_MAX as u64),
        ("system_limits_max", SYSTEM_LIMITS_MAX as u64),
        ("time_scores", TIME_SCORES),
        ("turn_bytes_default", TURN_BYTES_DEFAULT),
        ("unsettled_kept", millis(budget::UNSETTLED_KEPT)),
        ("untaken_event_bytes_max", UNTAKEN_MAX.bytes),
        ("untaken_events_max", UNTAKEN_MAX.count.into()),
        ("versions_default", WORKFLOW_VERSIONS_MAX_DEFAULT.into()),
        ("woken_at_once_max", budget::WOKEN_AT_ONCE_MAX as u64),
        ("workers_default", WORKERS_MAX_DEFAULT.into()),
        ("workers_max", registry::REGISTRY_MAX as u64),
        ("workflows_default", WORKFLOWS_MAX_DEFAULT.into()),
    ]
}

/// Documents that a script writes by itself, as texts for `string.format`: it names them as `formats.<name>`. Its times are
/// filled in.
fn formats() -> [(&'static str, String); 4] {
    [
        ("debounced_event", encode::debounced_event_format()),
        ("queued_event", encode::queued_event_format()),
        ("queued_head", encode::queued_head_format()),
        ("quiet_event", encode::quiet_event_format()),
    ]
}

/// The script with all pieces that it needs before it, each once and after those that it needs itself.
pub(crate) fn assemble(script: &'static str) -> Result<String, String> {
    let mut parts = Vec::new();
    add_piece("call", &mut parts)?;
    for need in needs_of_line(script.lines().next()) {
        add_piece(need, &mut parts)?;
    }
    let mut texts = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        texts.push(with_inner_pieces(part, &parts[..=index])?);
    }
    texts.push(with_inner_pieces(script, &parts)?);
    let text = texts.join("\n");
    let text = limits()
        .iter()
        .fold(text, |text, (name, value)| text.replace(&format!("limits.{name}"), &value.to_string()));
    let quoted = |format: &str| format!("[==[{format}]==]");
    Ok(formats()
        .iter()
        .fold(text, |text, (name, format)| text.replace(&format!("formats.{name}"), &quoted(format))))
}

/// Also within a function a script or a piece may name pieces: they stand there, with those that they need and that do not
/// stand before it.
fn with_inner_pieces(text: &'static str, before: &[&'static str]) -> Result<String, String> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        lines.push(line.to_owned());
        let mut parts = before.to_vec();
        for need in needs_of_line(Some(line).filter(|_| number > 0)) {
            add_piece(need, &mut parts)?;
        }
        for index in before.len()..parts.len() {
            lines.push(with_inner_pieces(parts[index], &parts[..=index])?);
        }
    }
    Ok(lines.join("\n"))
}

fn add_piece(name: &str, parts: &mut Vec<&'static str>) -> Result<(), String> {
    let piece = PIECES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let piece = piece.ok_or_else(|| format!("needs {name}, which is no shared piece"))?;
    if !parts.contains(&piece) {
        for need in needs_of_line(piece.lines().next()) {
            add_piece(need, parts)?;
        }
        parts.push(piece);
    }
    Ok(())
}

fn needs_of_line(line: Option<&'static str>) -> impl Iterator<Item = &'static str> {
    let names = line.and_then(|line| line.trim_start().strip_prefix("-- needs: "));
    names.into_iter().flat_map(|names| names.split(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Scripts that belong to no verb.
    const HELPERS: [&str; 9] = [
        "begin_text",
        "inspect_documents",
        "inspect_locks",
        "inspect_runs",
        "list_tenant",
        "pulse",
        "repair_locks",
        "repair_runs",
        "rhythms",
    ];

    /// Verbs without a script of their own: they use another verb's, or none.
    const WITHOUT_SCRIPT: [&str; 3] = ["force_release_lock", "list_api_keys", "list_tenants"];

    fn files(folder: &str) -> Vec<(String, &'static str)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lua").join(folder);
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let lua = files.filter(|file: &PathBuf| file.extension().is_some_and(|extension| extension == "lua"));
        let read = |file: PathBuf| {
            let text: &'static str = fs::read_to_string(&file).unwrap().leak();
            (file.file_stem().unwrap().to_str().unwrap().to_owned(), text)
        };
        lua.map(read).collect()
    }

    /// What it names anywhere.
    fn needs(text: &'static str) -> impl Iterator<Item = &'static str> {
        text.lines().flat_map(|line| needs_of_line(Some(line)))
    }

    fn is_word(character: char) -> bool {
        character.is_alphanumeric() || character == '_'
    }

    fn mentions(text: &str, name: &str) -> bool {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        code.flat_map(|line| line.split(|character| !is_word(character))).any(|word| word == name)
    }

    /// Whether it calls a function of this name. Fields of tables may have the same names.
    fn calls(text: &str, name: &str) -> bool {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let is_call =
            |line: &str, at: usize| !line[..at].ends_with(|before| is_word(before) || before == '.');
        let call = format!("{name}(");
        code.into_iter().any(|line| line.match_indices(&call).any(|(at, _)| is_call(line, at)))
    }

    /// What the top level of a piece defines.
    fn definitions(piece: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        for line in piece.lines() {
            if let Some(rest) = line.strip_prefix("local function ") {
                found.extend(rest.split('(').next());
            } else if let Some(rest) = line.strip_prefix("local ") {
                found.extend(
                    rest.split('=').next().into_iter().flat_map(|names| names.split(", ")).map(str::trim),
                );
            }
        }
        found
    }

    /// A piece of rules is used by its entries in the table of all rules.
    fn is_rules(name: &str) -> bool {
        name.ends_with("_rules")
    }

    #[test]
    fn every_verb_has_a_script_of_its_name_and_every_script_a_verb() {
        let scripts: BTreeSet<String> = files("").into_iter().map(|(name, _)| name).collect();
        let verbs = interlock_backend::verbs::NAMES.iter().filter(|name| !WITHOUT_SCRIPT.contains(name));
        let expected: BTreeSet<String> = verbs.chain(&HELPERS).map(|name| (*name).to_owned()).collect();
        assert_eq!(scripts, expected);
    }

    #[test]
    fn every_piece_is_known_and_needed() {
        let pieces = files("shared");
        let known: BTreeSet<&str> = PIECES.iter().map(|(name, _)| *name).collect();
        assert_eq!(pieces.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), known);
        let all: Vec<_> = files("").into_iter().chain(pieces).collect();
        let needed: BTreeSet<&str> = all.iter().flat_map(|(_, text)| needs(text)).chain(["call"]).collect();
        assert_eq!(needed, known);
    }

    #[test]
    fn every_file_needs_what_it_uses_and_uses_what_it_needs() {
        for (name, text) in files("").into_iter().chain(files("shared")) {
            let assembled = assemble(text).unwrap_or_else(|error| panic!("{name}.lua {error}"));
            let declared: BTreeSet<&str> = needs(text).collect();
            let own = definitions(text);
            for (piece, piece_text) in PIECES.iter().filter(|(piece, _)| *piece != "call") {
                let defined = definitions(piece_text);
                let is_used = defined.iter().any(|defined| mentions(text, defined));
                if declared.contains(piece) {
                    assert!(is_used || is_rules(piece), "{name}.lua needs {piece} and uses nothing of it");
                } else if name != *piece {
                    // Functions only: other names of a piece are plain words that a file may use for itself.
                    let function =
                        |defined: &&&str| piece_text.contains(&format!("local function {defined}("));
                    let is_included =
                        |defined: &str| assembled.contains(&format!("local function {defined}("));
                    let missing = defined.iter().filter(function).find(|defined| {
                        calls(text, defined) && !own.contains(**defined) && !is_included(defined)
                    });
                    assert_eq!(missing, None, "{name}.lua uses this of {piece} and does not need it");
                }
            }
        }
    }

    #[test]
    fn an_unknown_piece_is_an_error() {
        assert!(assemble("-- needs: fence, nonsense\nreturn answer()").is_err());
        assert!(assemble("-- needs: fence\nreturn answer()").is_ok());
    }
}
