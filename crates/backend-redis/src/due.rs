//! Where there is something to do now, over all tenants.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::runs::Due;
use interlock_model::{TenantId, Timestamp};

use crate::link::{Link, damaged};
use crate::script::{Call, Fields, Unreadable};
use crate::{scripts, tenants};

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
    put_off: Option<Timestamp>,
    held: Option<Timestamp>,
}

pub(crate) async fn look(link: &Link, limit: usize) -> Result<Due, StoreError> {
    let all = tenants::all(link).await?;
    // On a Cluster a script stays on one node, and tenants are spread over all of them.
    let at_once = if link.connection().is_cluster() { 1 } else { TENANTS_AT_ONCE };
    let mut looks = Vec::with_capacity(all.len().div_ceil(at_once));
    let chunks: Vec<&[TenantId]> = all.chunks(at_once).collect();
    for side_by_side in chunks.chunks(LOOKS_AT_ONCE) {
        looks.extend(join_all(side_by_side.iter().map(|some| look_at(link, some))).await);
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
                (look.put_off, &mut due.put_off),
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

async fn look_at(link: &Link, tenants: &[TenantId]) -> Result<(Timestamp, Vec<Look>), StoreError> {
    let Some(first) = tenants.first() else { return Ok((Timestamp::ZERO, Vec::new())) };
    let call = Call::read(&scripts::DUE, "look for work", first).polling();
    let call = call.with_list(tenants.iter(), |call, tenant| call.push(format!("{{{tenant}}}")));
    let name = call.script.name;
    let fields = link.call(call).await?;
    read(fields, tenants).map_err(|error| damaged(name, error))
}

fn read(mut fields: Fields, tenants: &[TenantId]) -> Result<(Timestamp, Vec<Look>), Unreadable> {
    let now = fields.time()?;
    let mut answers = fields.list()?;
    let mut looks = Vec::with_capacity(tenants.len());
    for tenant in tenants {
        let mut answer = answers.list()?;
        let is_ready = answer.parsed::<u64>("count")? > 0;
        let mut time = || answer.optional_time();
        let (timer, lease, put_off, held) = (time()?, time()?, time()?, time()?);
        looks.push(Look { tenant: tenant.clone(), is_ready, timer, lease, put_off, held });
    }
    Ok((now, looks))
}
