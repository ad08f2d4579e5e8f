//! Tunings.

use interlock_api::retry_policies::{PolicyVersion, RetryPolicyDetail, RetryPolicyView, TuningView};
use interlock_control::contention::InForceView;
use interlock_model::contention::{Tuning, Version, Versions};

pub(crate) fn view(in_force: &InForceView) -> RetryPolicyView {
    let Tuning { policy, max_wait_ms, lock_ttl_ms } = in_force.tuning;
    let version = in_force.version.as_ref();
    RetryPolicyView {
        scope: in_force.scope,
        policy,
        max_wait_ms,
        lock_ttl_ms,
        version: version.map_or(0, |version| version.number),
        by: version.map(|version| version.by.clone()),
        at: version.map(|version| version.at.into()),
        reason: version.and_then(|version| version.reason.clone()),
        restores: version.and_then(|version| version.restores),
    }
}

pub(crate) fn detail(in_force: &InForceView, versions: &Versions) -> RetryPolicyDetail {
    let versions = versions.newest_first().cloned().map(change).collect();
    RetryPolicyDetail { in_force: view(in_force), versions }
}

fn change(version: Version) -> PolicyVersion {
    let Version { number, tuning, by, at, reason, restores } = version;
    let tuning = tuning.map(|Tuning { policy, max_wait_ms, lock_ttl_ms }| TuningView {
        policy,
        max_wait_ms,
        lock_ttl_ms,
    });
    PolicyVersion { version: number, tuning, by, at: at.into(), reason, restores }
}
