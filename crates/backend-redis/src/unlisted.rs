//! Checks idempotency keys and queues. No list leads to them: a pass over all keys comes by them, and the script of their
//! tenant checks them.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use interlock_backend::verbs::InspectUnlisted;
use interlock_backend::{Effect, Page, PageRequest, StoreError, Verb as _};
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant};

use crate::connect::SendError;
use crate::inspection::{Found, Question};
use crate::reply::damaged;
use crate::script::Call;
use crate::store::{Execute, RedisStore};

const KEYS: &str = "wf:run:idempotency";
const QUEUES: &str = "wf:queue";

/// Keys that one step goes past, ours or not, even if fewer are asked for: most of them may be others'.
const KEYS_AT_ONCE: usize = 1_000;

/// Tenants whose keys are checked concurrently.
const TENANTS_AT_ONCE: usize = 8;

/// What the keys begin with that an invariant is about.
fn fronts(invariant: Invariant) -> &'static [&'static str] {
    if matches!(invariant, Invariant::KeyWithoutRun | Invariant::ReservationLeftBehind) {
        &[KEYS]
    } else if invariant == Invariant::QueueEntryWithoutJob {
        &[QUEUES]
    } else if invariant == Invariant::RowDamaged {
        &[KEYS, QUEUES]
    } else {
        &[]
    }
}

/// Where a pass over all keys is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Place {
    /// Which front, and which server, in the order of their addresses.
    front: usize,
    server: usize,
    /// The cursor of SCAN.
    cursor: u64,
    /// The tenant whose keys are not all checked yet, and where its script goes on.
    within: Option<(TenantId, String)>,
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '/');
        let (front, server) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let cursor = parts.next()?.parse().ok()?;
        let within = parts.next().and_then(|tenant| Some((tenant.parse().ok()?, parts.next()?.to_owned())));
        Some(Self { front, server, cursor, within })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.front, self.server, self.cursor)?;
        self.within.iter().try_for_each(|(tenant, place)| write!(out, "/{tenant}/{place}"))
    }
}

/// Names behind the tag of a tenant, and where its script goes on.
struct TenantNames {
    tenant: TenantId,
    names: Vec<String>,
    after: Option<String>,
}

impl Execute for InspectUnlisted {
    async fn execute(self, store: &RedisStore) -> Result<Page<Finding>, StoreError> {
        let page = store.look_at_unlisted(&self).await?;
        Ok(page.map(|(tenant, found)| found.into_finding(self.invariant, tenant)))
    }
}

impl RedisStore {
    /// What one step of the pass comes by.
    pub(crate) async fn look_at_unlisted(
        &self,
        asked: &InspectUnlisted,
    ) -> Result<Page<(TenantId, Found)>, StoreError> {
        let place = asked.page.after.as_deref().and_then(Place::read).unwrap_or_default();
        let fronts = fronts(asked.invariant);
        let servers = self.servers().await?;
        let (Some(front), Some(server)) = (fronts.get(place.front), servers.get(place.server)) else {
            return Ok(Page { items: Vec::new(), next: None });
        };
        let (cursor, names) = self.scan(server, &place, front, asked).await?;
        let begun = place.within.as_ref().map(|(tenant, _)| tenant);
        let left = names.into_iter().filter(|(tenant, _)| begun.is_none_or(|begun| tenant >= begun));
        let checks = left.map(|(tenant, names)| {
            let begun = place.within.as_ref().filter(|(begun, _)| *begun == tenant);
            let after = begun.map(|(_, after)| after.clone());
            self.check_names(asked, front, TenantNames { tenant, names, after })
        });
        let mut checks = stream::iter(checks).buffered(TENANTS_AT_ONCE);
        let mut items = Vec::new();
        while let Some((tenant, found)) = checks.try_next().await? {
            items.extend(found.items.into_iter().map(|found| (tenant.clone(), found)));
            if let Some(next) = found.next {
                let next = Place { within: Some((tenant, next)), ..place };
                return Ok(Page { items, next: Some(next.to_string()) });
            }
        }
        let Place { front, server, .. } = place;
        let next = if cursor != 0 {
            Some(Place { front, server, cursor, within: None })
        } else if server + 1 < servers.len() {
            Some(Place { front, server: server + 1, ..Place::default() })
        } else {
            Some(Place { front: front + 1, ..Place::default() }).filter(|next| next.front < fronts.len())
        };
        Ok(Page { items, next: next.map(|next| next.to_string()) })
    }

    async fn servers(&self) -> Result<Vec<String>, StoreError> {
        let answers = self.client.connection().ask_every_master(&redis::cmd("PING")).await;
        let mut servers: Vec<String> =
            answers.map_err(unavailable)?.into_iter().map(|(server, _)| server).collect();
        servers.sort();
        Ok(servers)
    }

    /// The next cursor, and the names of the keys behind the tag, by tenant. Names that are not ours are left out.
    async fn scan(
        &self,
        server: &str,
        place: &Place,
        front: &str,
        asked: &InspectUnlisted,
    ) -> Result<(u64, BTreeMap<TenantId, Vec<String>>), StoreError> {
        let connection = self.client.connection();
        let front = format!("{}{front}:{{", connection.key_prefix());
        let tenant = asked.tenant.as_ref().map_or("*", TenantId::as_str);
        let mut scan = redis::cmd("SCAN");
        scan.arg(place.cursor).arg("MATCH").arg(format!("{front}{tenant}}}:*"));
        scan.arg("COUNT").arg(asked.page.limit.max(KEYS_AT_ONCE));
        let answer = connection.ask_master(server, &scan).await.map_err(unavailable)?;
        let (cursor, keys): (u64, Vec<Vec<u8>>) =
            redis::from_redis_value(answer).map_err(|error| damaged("scan", error.to_string()))?;
        let mut names: BTreeMap<TenantId, Vec<String>> = BTreeMap::new();
        for key in keys {
            let name = std::str::from_utf8(&key).ok().and_then(|key| key.strip_prefix(&front));
            let Some((tenant, name)) = name.and_then(|name| name.split_once("}:")) else { continue };
            if let Ok(tenant) = tenant.parse() {
                names.entry(tenant).or_default().push(name.to_owned());
            }
        }
        Ok((cursor, names))
    }

    async fn check_names(
        &self,
        asked: &InspectUnlisted,
        front: &str,
        TenantNames { tenant, names, after }: TenantNames,
    ) -> Result<(TenantId, Page<Found>), StoreError> {
        let question = Question { tenant: &tenant, invariant: asked.invariant, grace: asked.grace };
        let page = PageRequest { limit: asked.page.limit, after };
        let arguments = question.arguments().with("front", front).with("names", names).with("page", page);
        let call = Call::on_behalf_of::<InspectUnlisted>("inspect_unlisted", &tenant, arguments);
        let found = self.client.call(call).await?;
        Ok((tenant, found))
    }
}

fn unavailable(error: SendError) -> StoreError {
    let (action, effect) = (InspectUnlisted::ACTION, Effect::NotDone);
    StoreError::Unavailable { action, effect, reason: error.reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let within = Some(("acme".parse().unwrap(), "1 build 000/a:b@1".to_owned()));
        for within in [None, within] {
            let place = Place { front: 1, server: 2, cursor: u64::MAX, within };
            assert_eq!(Place::read(&place.to_string()), Some(place));
        }
        for foreign in ["", "x", "1/2", "1/2/x", "-1/0/0"] {
            assert_eq!(Place::read(foreign), None, "{foreign}");
        }
    }
}
