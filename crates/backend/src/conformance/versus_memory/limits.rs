//! Named limits, their queues, and the runs in them.

use interlock_model::limit::GroupKey;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::fair::FairClaim;
use interlock_model::limit::place::StartPriority;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::{LimitName, TenantId};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use serde_json::json;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::limits::{LimitBook, LimitChange, StoredLimit};
use crate::verbs::{
    AdoptSystemLimits, DeleteLimit, ListLimits, ListQueuedRuns, ListSlots, MoveQueuedRun, PauseLimit,
    ReadDebouncedRun, ReadLimitUsage, ReadQueuedRun, SaveLimit,
};

/// Those that a start may count in, as they are narrow.
const MATCHED: [&str; 3] = ["narrow", "wide", SYSTEMS];

/// The tenant's own: narrow, wide and built in.
const OWN: [&str; 3] = ["narrow", "wide", "tenant-runs"];

/// The system's.
const SYSTEMS: &str = "system.wide";

const GROUPS: [&str; 3] = ["", "a/b", "é"];

sampled!(
    SaveLimit,
    6,
    |walk| {
        let tenant = walk.tenant();
        let book = walk.known.limits_revisions.get(&tenant).copied().unwrap_or_default();
        let book = if walk.flip(0.9) { book } else { 0 };
        let replaces = walk.flip(0.1).then(|| walk.random.random_range(0..3));
        let limit = walk.random.random_range(0..2);
        Some(SaveLimit { tenant, name: name(OWN[limit]), document: walk.limit_document(), book, replaces })
    },
    |asked, answer, known| {
        if let LimitChange::Done { revision, .. } = answer {
            known.limits_revisions.insert(asked.tenant.clone(), *revision);
        }
    }
);

sampled!(
    DeleteLimit,
    1,
    |walk| {
        let (tenant, name) = (walk.tenant(), walk.own_limit());
        let replaces = walk.flip(0.1).then(|| walk.random.random_range(0..3));
        Some(DeleteLimit { tenant, name, replaces })
    },
    |asked, answer, known| {
        if let LimitChange::Done { revision, .. } = answer {
            known.limits_revisions.insert(asked.tenant.clone(), *revision);
        }
    }
);

sampled!(
    PauseLimit,
    2,
    |walk| {
        let (tenant, name, at) = (walk.tenant(), walk.own_limit(), walk.now());
        let pause = walk.flip(0.4).then(|| Pause { by: walk.person(), at, reason: None });
        Some(PauseLimit { tenant, name, pause })
    },
    |asked, answer, known| {
        if let LimitChange::Done { revision, .. } = answer {
            known.limits_revisions.insert(asked.tenant.clone(), *revision);
        }
    }
);

sampled!(
    AdoptSystemLimits,
    3,
    |walk| {
        let tenant = walk.tenant();
        let known = walk.known.system_versions.get(&tenant).copied().unwrap_or_default();
        let version = (known + walk.random.random_range(0..3)).saturating_sub(1);
        let limits = if walk.flip(0.8) { vec![walk.system_limit()] } else { Vec::new() };
        Some(AdoptSystemLimits { tenant, version, limits })
    },
    |asked, answer, known| {
        known.system_versions.insert(asked.tenant.clone(), answer.version);
    }
);

sampled!(ListLimits, 3, |walk| Some(ListLimits { tenant: walk.tenant() }), |asked, answer, known| {
    let LimitBook { revision, .. } = answer;
    known.limits_revisions.insert(asked.tenant.clone(), *revision);
});

sampled!(ReadLimitUsage, 2, |walk| {
    let (tenant, name) = (walk.tenant(), walk.limit_name());
    let group = walk.flip(0.5).then(|| walk.group());
    Some(ReadLimitUsage { tenant, name, group })
});

sampled!(
    ListQueuedRuns,
    2,
    |walk| {
        let (tenant, name, group) = (walk.tenant(), walk.limit_name(), walk.group());
        let page = walk.page(&format!("queue of {tenant}/{name}/{group}"));
        Some(ListQueuedRuns { tenant, name, group, page })
    },
    |asked, answer, known| {
        known.learn_page(format!("queue of {}/{}/{}", asked.tenant, asked.name, asked.group), answer);
    }
);

sampled!(ReadDebouncedRun, 2, |walk| {
    let (tenant, name, group) = (walk.tenant(), walk.limit_name(), walk.group());
    Some(ReadDebouncedRun { tenant, name, group, workflow: walk.workflow() })
});

sampled!(ListSlots, 2, |walk| {
    let (tenant, name, group) = (walk.tenant(), walk.limit_name(), walk.group());
    Some(ListSlots { tenant, name, group, limit: walk.random.random_range(1..10) })
});

sampled!(ReadQueuedRun, 3, |walk| {
    let (tenant, run) = walk.queued_run()?;
    Some(ReadQueuedRun { tenant, run })
});

sampled!(MoveQueuedRun, 3, |walk| {
    let (tenant, run) = walk.queued_run()?;
    Some(MoveQueuedRun { tenant, run, to_front: walk.flip(0.5) })
});

impl Walk {
    pub(super) fn limits_revision(&self, tenant: &TenantId) -> u64 {
        self.known.limits_revisions.get(tenant).copied().unwrap_or_default()
    }

    fn own_limit(&mut self) -> LimitName {
        name(OWN.choose(&mut self.random).expect("there are some"))
    }

    fn limit_name(&mut self) -> LimitName {
        if self.flip(0.2) { name(SYSTEMS) } else { self.own_limit() }
    }

    fn system_limit(&mut self) -> StoredLimit {
        let (document, at) = (self.limit_document(), self.now());
        let paused = self.flip(0.2).then(|| Pause { by: self.person(), at, reason: None });
        let revision = self.random.random_range(1..4);
        StoredLimit { name: name(SYSTEMS), document, revision, saved_at: at, paused }
    }

    fn group(&mut self) -> GroupKey {
        name(GROUPS.choose(&mut self.random).expect("there are some"))
    }

    /// The groups that a start counts in: in order, as by the rules of the model.
    pub(super) fn claims(&mut self) -> Vec<SlotClaim> {
        let mut claims = Vec::new();
        for limit in MATCHED {
            if self.flip(0.5) {
                let group = if limit == "narrow" { self.group() } else { GroupKey::default() };
                claims.push(SlotClaim { limit: name(limit), group });
            }
        }
        claims
    }

    /// The groups of fair queues that are charged for a start: none if it was accepted before they were fair.
    pub(super) fn fair_claims(&mut self) -> Vec<FairClaim> {
        let limits = MATCHED.into_iter().filter(|_| self.random.random_bool(0.8)).collect::<Vec<_>>();
        limits.into_iter().map(|limit| FairClaim { limit: name(limit), group: self.group() }).collect()
    }

    pub(super) fn priority(&mut self) -> StartPriority {
        let level = if self.flip(0.5) { 4 } else { self.random.random_range(0..=9) };
        StartPriority::try_from(level).expect("it is a priority")
    }

    fn limit_document(&mut self) -> LimitDocument {
        let on_full =
            ["reject", "queue", "queue", "join", "replace_queued", "replace_running", "debounce", "debounce"];
        let on_full = on_full.choose(&mut self.random).expect("there are some");
        let mut document = json!({"max_runs": self.random.random_range(1..4), "on_full": on_full});
        if self.flip(0.3) {
            let starts = self.random.random_range(1..4);
            document["rate"] = json!({"starts": starts, "period_sec": 2, "burst": 1});
        }
        if *on_full == "debounce" {
            document["quiet_sec"] = json!(self.random.random_range(1..4));
            document["max_delay_sec"] = json!(self.random.random_range(4..8));
        }
        if !matches!(*on_full, "reject" | "join") {
            let order =
                ["fifo", "priority", "fair", "fair"].choose(&mut self.random).expect("there are some");
            let (max, seconds) = (self.random.random_range(1..9), self.random.random_range(1..20));
            document["queue"] = json!({"max": max, "max_wait_sec": seconds, "order": order});
            if *order == "fair" {
                document["queue"]["fair_by"] = json!("input.user");
                document["queue"]["weights"] = json!({"a/b": 3, "é": self.random.random_range(1..9)});
            }
        }
        if document["queue"].is_object() && self.flip(0.3) {
            document["count"] = json!("all");
        }
        serde_json::from_value(document).expect("the document is valid")
    }
}
