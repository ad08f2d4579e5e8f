//! Mutants of the scripts, made by hand: each takes away or turns round one decision.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// A text of one script that is replaced by another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LuaMutant {
    /// Without the folder of the scripts.
    file: &'static str,
    /// It occurs once in its file.
    from: &'static str,
    to: &'static str,
}

const FOLDER: &str = "crates/backend-redis/src/lua/";

impl LuaMutant {
    pub(crate) fn name(&self) -> String {
        format!("{FOLDER}{}: `{}` to `{}`", self.file, self.from, self.to)
    }
}

macro_rules! mutants {
    ($($file:literal { $($from:literal => $to:literal),* $(,)? })*) => {
        &[$($(LuaMutant { file: $file, from: $from, to: $to }),*),*]
    };
}

pub(crate) const LUA: &[LuaMutant] = mutants! {
    "abandon_worker.lua" { "worker == call.worker and" => "" }
    "acquire_ready_runs.lua" { "#acquired == call.limit or" => "" }
    "admit.lua" {
        "found.usage.runs_active < found.usage.runs_max" => "found.usage.runs_active <= found.usage.runs_max",
        "current ~= start.workflow_version" => "false",
        "record.run == start.run and record.fingerprint" => "record.fingerprint",
        "found.usage.runs_active = found.usage.runs_active + 1" => "",
        "found.limits_revision ~= start.limits_revision" => "false",
        "and not found.is_paused" => "",
        "redis.call('ZADD', key('wf:ready'), 0, run)" => "",
        "reservation.run ~= start.run" => "false",
    }
    "cancel_job.lua" { "post_outcome(call.job, call.outcome)" => "" }
    "claim.lua" {
        "and held[2] == request" => "",
        "end_cause or held_fence or held then" => "end_cause or held_fence then",
        "#claimed >= jobs_max" => "#claimed > jobs_max",
        "fits = fits and is_capable[capability]" => "",
        "and not is_draining" => "",
    }
    "commit.lua" {
        "tonumber(fence_before) >= fence" => "false",
        "tonumber(version_before) ~= version then" => "false then",
        "final[call.status] and not final[status_before]" => "false",
        "redis.call('ZREM', key('wf:ready'), run)" => "",
        "redis.call('ZREM', key('wf:timers'), run)" => "",
        "release_lock(run, fence)" => "",
        "return grant_freed_slots({ 'tenant-runs:' })" => "return 0",
    }
    "delete_limit.lua" { "call.replaces ~= tonumber(before.revision)" => "false" }
    "shared/api_keys.lua" { "keys_of(tenant) >= limits." => "keys_of(tenant) > limits." }
    "deliver_result.lua" { "not is_free(run)" => "false" }
    "expire_leases.lua" {
        "key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit" =>
            "key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit + 1",
    }
    "extend_job_lease.lua" { "found.cause == 'revoked' or" => "" }
    "fire_timers.lua" {
        "redis.call('ZREM', key('wf:timers'), run)" => "",
        "timers, '-inf', integer(now), 'LIMIT'" => "timers, '-inf', integer(now + call.ahead), 'LIMIT'",
        "write_groups()" => "",
    }
    "move_queued_run.lua" { "score - 1" => "score", "score + 1" => "score" }
    "pause_limit.lua" { "redis.call('HDEL', hash, 'paused')" => "" }
    "release_lock.lua" { "local turn = whose_turn(lock)" => "local turn = false" }
    "renew_lock.lua" {
        "local turn = whose_turn(lock)" => "local turn = false",
        "purge(lock)" => "",
    }
    "repair_slots.lua" { "and status ~= 'queued'" => "" }
    "requeue_jobs.lua" { "and not found[4] then" => "then" }
    "reserve_idempotency_key.lua" { "record.reservation.fence > call.fence" => "false" }
    "resolve_approval.lua" {
        "post(run_of(job), call.event)" => "",
        "held and verdict == 'approved'" => "held",
    }
    "save_limit.lua" { "limits_revision() ~= call.book or" => "" }
    "set_limits.lua" { "grant_slots({ tenant_runs })" => "" }
    "settle_held_job.lua" {
        "so_far < dispatches" => "so_far <= dispatches",
        "reason ~= before.held" => "true",
    }
    "shared/acquire.lua" {
        "lock.expires_at <= now or" => "lock.expires_at < now or",
        "gone[lock.owner] then" => "false then",
    }
    "shared/arrivals.lua" {
        "joined >= limits.joined_keys_max" => "joined > limits.joined_keys_max",
        "write_groups()" => "",
    }
    "shared/dead_letters.lua" { "and not own[job]" => "" }
    "shared/fence.lua" { "math.max(last + 1," => "math.max(last," }
    "shared/grants.lua" {
        "      if group.queued > 0 then" => "      if false then",
        "acquire_slots(run, claims, is_child)\n  redis.call" => "acquire_slots(run, {}, is_child)\n  redis.call",
        "grant_steps == limits.grant_steps_max then\n    grant_at" => "false then\n    grant_at",
        "after and '(' .. after .. '/' or '-'" => "'-'",
        "if next_at then\n      grant_at(next_at, claim)\n    end\n    return false" => "return false",
    }
    "shared/groups.lua" {
        "live >= rule.runs_max" => "live > rule.runs_max",
        "if not reason and group.queued > 0 then" => "if false then",
        "math.max(group.paced_until or 0, now * 1000)" => "now * 1000",
        "redis.call('UNLINK', hash)" => "",
    }
    "shared/idempotency.lua" { "now >= record.expires_at" => "now > record.expires_at" }
    "shared/inbox.lua" { "redis.call('ZADD', key('wf:ready'), 0, run)" => "" }
    "shared/jobs.lua" {
        "if not created_at or end_cause then" => "if not created_at then",
        "redis.call('ZREM', queue_key(topic, kind), queue_place(job, created_at, moved))" => "",
        "release_job_lock(job, { worker, token, held_fence, expires_at })" => "",
    }
    "shared/judge.lua" {
        "group.queued >= group.rule.queued_max" => "group.queued > group.rule.queued_max",
        "if one.stays and (policy" => "if (policy",
        "if one ~= replaces and one.stays then" => "if false then",
        "policy == 'join' and can_join" => "policy == 'join'",
    }
    "shared/lease_check.lua" {
        "tonumber(current) ~= fence" => "false",
        "tonumber(expires_at) <= now" => "tonumber(expires_at) < now",
        "edge ~= lease.edge and" => "false and",
        "known.cause == outcome.cause and" => "",
    }
    "shared/limit_change.lua" { "redis.call('HDEL', hash, unpack(rule_names))" => "" }
    "shared/locks.lua" {
        "first and fits(lock, first.mode) and first.request" => "first and first.request",
        "holder.mode == 'shared' and redis.call" => "redis.call",
        "#waiter.calls == 0" => "true",
    }
    "shared/queue.lua" { "tonumber(dispatched_at) + tonumber(moved or 0)" => "tonumber(dispatched_at)" }
    "shared/places.lua" {
        "(9 - place.priority) * 60000" => "place.priority * 60000",
        "if group.replacing == run then" => "if false then",
    }
    "shared/replacements.lua" {
        "held[group.claim] and 1 or 0" => "1",
        "if pending then" => "if false then",
        "would_replace(group) and fullness_for_newcomer(group, group.live) then" => "would_replace(group) then",
    }
    "shared/slot_flow.lua" { "redis.call('SREM', key('wf:runs:active'), run) == 0" => "false" }
    "shared/slots.lua" {
        "release_in(group)" => "",
        "grant_slots(claims)" => "",
        "freed[#freed + 1] = claim\n" => "\n",
    }
    "withdraw_lock.lua" {
        "local turn = whose_turn(lock)" => "local turn = false",
        "and grant.call == token" => "",
    }
};

/// Marks the places of the mutants of this file with their numbers, behind them: the rest of the line is still code.
pub(crate) fn marked(
    file: &str,
    mut text: String,
    mutants: &BTreeMap<usize, &'static LuaMutant>,
) -> Result<String> {
    let Some(script) = file.strip_prefix(FOLDER) else { return Ok(text) };
    for (number, mutant) in mutants.iter().filter(|(_, mutant)| mutant.file == script) {
        if text.matches(mutant.from).count() != 1 {
            bail!("{file} has not exactly one `{}`: change the list of mutants", mutant.from);
        }
        text = text.replace(mutant.from, &format!("{}--[[{number}]]", mutant.from));
    }
    Ok(text)
}

/// The list of the mutants for the injected code.
pub(crate) fn table(mutants: &BTreeMap<usize, &'static LuaMutant>) -> String {
    let rows =
        mutants.iter().map(|(number, mutant)| format!("({number}, {:?}, {:?}),\n", mutant.from, mutant.to));
    format!("\nconst LUA: &[(usize, &str, &str)] = &[\n{}];\n", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::command::root;

    #[expect(dead_code, unreachable_pub, reason = "the mutated tree uses the rest")]
    mod injected {
        include!("injected.rs");

        const LUA: &[(usize, &str, &str)] = &[];

        pub(super) fn replaced_by(script: &str, mutants: &[(usize, &str, &str)], number: usize) -> String {
            replaced(script, number, mutants)
        }
    }

    #[test]
    fn only_the_selected_mutant_has_its_text() {
        static ONE: LuaMutant = LuaMutant { file: "a.lua", from: "a < b", to: "a <= b" };
        static TWO: LuaMutant = LuaMutant { file: "a.lua", from: "act()", to: "" };
        let text = "if a < b then\n  act()\nend".to_owned();
        let mutants = [(7, "a < b", "a <= b"), (8, "act()", "")];
        let places = [(7, &ONE), (8, &TWO)];
        let marked = marked("crates/backend-redis/src/lua/a.lua", text, &BTreeMap::from(places)).unwrap();
        assert_eq!(marked, "if a < b--[[7]] then\n  act()--[[8]]\nend");
        let replaced = |number| injected::replaced_by(&marked, &mutants, number);
        assert_eq!(replaced(7), "if a <= b then\n  act()--[[8]]\nend");
        assert_eq!(replaced(8), "if a < b--[[7]] then\n  \nend");
        assert_eq!(replaced(9), marked);
    }

    #[test]
    fn every_mutant_has_its_place_in_the_scripts() {
        let mutants: BTreeMap<usize, &LuaMutant> = LUA.iter().enumerate().collect();
        assert!(mutants.len() >= 20);
        for mutant in LUA {
            let file = FOLDER.to_owned() + mutant.file;
            let text = fs::read_to_string(root().join(&file)).unwrap();
            let marked = marked(&file, text, &mutants).unwrap();
            assert!(marked.contains("--[["), "{file}");
        }
    }
}
