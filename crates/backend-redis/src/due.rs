//! Where there is something to do now, over all tenants.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::runs::Due;
use interlock_backend::verbs::FindDue;
use interlock_model::{TenantId, Timestamp};
use serde::Deserialize;

use crate::client::ScriptClient;
use crate::script::{Arguments, Call};
use crate::store::{Execute, RedisStore};
use crate::tenants;

/// Tenants that one script looks at: two or three hundred microseconds of the store's time.
const TENANTS_AT_ONCE: usize = 64;

/// Scripts that are on their way at once. One server runs all that it has received before it serves another connection.
const LOOKS_AT_ONCE: usize = 2;
const CLUSTER_LOOKS_AT_ONCE: usize = 64;

/// What some tenants have to do, in the order in which they were asked about.
#[derive(Deserialize)]
struct Looks {
    now: Timestamp,
    tenants: Vec<Look>,
}

#[derive(Deserialize)]
struct Look {
    is_ready: bool,
    timer: Option<Timestamp>,
    /// When slots are to be granted.
    limit_timer: Option<Timestamp>,
    lease: Option<Timestamp>,
    /// When a job ends unless a worker claims it.
    unclaimed: Option<Timestamp>,
    deferred: Option<Timestamp>,
    held: Option<Timestamp>,
    budget: Option<Timestamp>,
    /// When a child is to be started.
    child: Option<Timestamp>,
    /// When an event is to be delivered on, or forgotten.
    event: Option<Timestamp>,
}

impl Execute for FindDue {
    async fn execute(self, store: &RedisStore) -> Result<Due, StoreError> {
        find_due(&store.client, self.limit).await
    }
}

async fn find_due(client: &ScriptClient, limit: usize) -> Result<Due, StoreError> {
    let all = tenants::all(client).await?;
    // On a Cluster a script stays on one node, and tenants are spread over all of them.
    let (at_once, looks_at_once) = if client.connection().is_cluster() {
        (1, CLUSTER_LOOKS_AT_ONCE)
    } else {
        (TENANTS_AT_ONCE, LOOKS_AT_ONCE)
    };
    let mut looks = Vec::with_capacity(all.len().div_ceil(at_once));
    let chunks: Vec<&[TenantId]> = all.chunks(at_once).collect();
    for side_by_side in chunks.chunks(looks_at_once) {
        looks.extend(join_all(side_by_side.iter().map(|some| look_at(client, some))).await);
    }
    // A node that is unreachable does not keep the others' tenants waiting.
    if let Some(Err(error)) = looks.iter().find(|look| look.is_err()) {
        if looks.iter().all(Result::is_err) {
            return Err(error.clone());
        }
        tracing::warn!(%error, "some tenants could not be looked at; trying again at the next look");
    }
    let mut due = Due::default();
    let (mut to_grant, mut unclaimed) = (Vec::new(), Vec::new());
    let mut next_in: Option<Duration> = None;
    for (Looks { now, tenants: looks }, asked) in
        looks.into_iter().zip(chunks).filter_map(|(looks, asked)| Some((looks.ok()?, asked)))
    {
        for (look, tenant) in looks.into_iter().zip(asked) {
            if look.is_ready && due.ready.len() < limit {
                due.ready.push(tenant.clone());
            }
            let times = [
                (look.timer, &mut due.timers),
                (look.limit_timer, &mut to_grant),
                (look.lease, &mut due.leases),
                (look.unclaimed, &mut unclaimed),
                (look.deferred, &mut due.deferred),
                (look.held, &mut due.held),
                (look.budget, &mut due.budgets),
                (look.child, &mut due.children),
                (look.event, &mut due.events),
            ];
            for (at, tenants) in times {
                match at {
                    Some(at) if at <= now && tenants.len() < limit => tenants.push(tenant.clone()),
                    Some(at) if at <= now => {}
                    Some(at) => next_in = next_in.into_iter().chain([at.since(now)]).min(),
                    None => {}
                }
            }
        }
    }
    to_grant.retain(|tenant| !due.timers.contains(tenant));
    due.timers.extend(to_grant);
    unclaimed.retain(|tenant| !due.leases.contains(tenant));
    due.leases.extend(unclaimed);
    due.next_in = next_in;
    Ok(due)
}

async fn look_at(client: &ScriptClient, tenants: &[TenantId]) -> Result<Looks, StoreError> {
    let tags: Vec<String> = tenants.iter().map(|tenant| format!("{{{tenant}}}")).collect();
    let arguments = Arguments::default().with("tags", tags);
    client.call(Call::on_behalf_of::<FindDue>("find_due", &tenants[0], arguments).polling()).await
}
