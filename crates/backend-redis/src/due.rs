//! Where there is something to do now, over all tenants.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::runs::Due;
use interlock_backend::verbs::FindDue;
use interlock_model::{TenantId, Timestamp};

use crate::client::{ScriptClient, damaged};
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, script};
use crate::store::{Execute, RedisStore};
use crate::tenants;

/// Tenants that one script looks at: a few hundred microseconds of the store's time.
const TENANTS_AT_ONCE: usize = 256;

/// Scripts that are on their way at once.
const LOOKS_AT_ONCE: usize = 64;

/// What one tenant has to do.
struct Look {
    tenant: TenantId,
    is_ready: bool,
    timer: Option<Timestamp>,
    lease: Option<Timestamp>,
    deferred: Option<Timestamp>,
    held: Option<Timestamp>,
}

impl Execute for FindDue {
    async fn execute(self, store: &RedisStore) -> Result<Due, StoreError> {
        find_due(&store.client, self.limit).await
    }
}

async fn find_due(client: &ScriptClient, limit: usize) -> Result<Due, StoreError> {
    let all = tenants::all(client).await?;
    // On a Cluster a script stays on one node, and tenants are spread over all of them.
    let at_once = if client.connection().is_cluster() { 1 } else { TENANTS_AT_ONCE };
    let mut looks = Vec::with_capacity(all.len().div_ceil(at_once));
    let chunks: Vec<&[TenantId]> = all.chunks(at_once).collect();
    for side_by_side in chunks.chunks(LOOKS_AT_ONCE) {
        looks.extend(join_all(side_by_side.iter().map(|some| look_at(client, some))).await);
    }
    // A node that is away does not keep the others' tenants waiting.
    if let Some(Err(error)) = looks.iter().find(|look| look.is_err()) {
        if looks.iter().all(Result::is_err) {
            return Err(error.clone());
        }
        tracing::warn!(%error, "some tenants could not be looked at; trying again at the next look");
    }
    let mut due = Due::default();
    let mut next_in: Option<Duration> = None;
    for (now, looks) in looks.into_iter().flatten() {
        for look in looks {
            if look.is_ready && due.ready.len() < limit {
                due.ready.push(look.tenant.clone());
            }
            let times = [
                (look.timer, &mut due.timers),
                (look.lease, &mut due.leases),
                (look.deferred, &mut due.deferred),
                (look.held, &mut due.held),
            ];
            for (at, tenants) in times {
                match at {
                    Some(at) if at <= now && tenants.len() < limit => tenants.push(look.tenant.clone()),
                    Some(at) if at <= now => {}
                    Some(at) => next_in = next_in.into_iter().chain([at.since(now)]).min(),
                    None => {}
                }
            }
        }
    }
    due.next_in = next_in;
    Ok(due)
}

async fn look_at(client: &ScriptClient, tenants: &[TenantId]) -> Result<(Timestamp, Vec<Look>), StoreError> {
    let Some(first) = tenants.first() else { return Ok((Timestamp::ZERO, Vec::new())) };
    let tags: Vec<String> = tenants.iter().map(|tenant| format!("{{{tenant}}}")).collect();
    let call = Call::for_verb::<FindDue>(script!("find_due"), first).polling().with("tags", tags);
    let name = call.script.name;
    let reply = client.call(call).await?;
    read(reply, tenants).map_err(|error| damaged(name, error))
}

fn read(mut reply: Reply, tenants: &[TenantId]) -> Result<(Timestamp, Vec<Look>), Unreadable> {
    let now = reply.time("now")?;
    let mut names = tenants.iter();
    let looks = reply.each("tenants", |mut item| {
        Ok(Look {
            tenant: names.next().ok_or_else(|| item.unreadable("tenant"))?.clone(),
            is_ready: item.flag("is_ready"),
            timer: item.optional_time("timer")?,
            lease: item.optional_time("lease")?,
            deferred: item.optional_time("deferred")?,
            held: item.optional_time("held")?,
        })
    })?;
    Ok((now, looks))
}
