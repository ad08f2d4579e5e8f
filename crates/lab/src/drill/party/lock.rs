//! The lock, and the ledger that is written under its fence.

use std::time::Duration;

use interlock_api::client::Client;
use interlock_api::locks::{AcquireRequest, LockGrant, ReleaseRequest, RenewRequest};
use interlock_model::LockToken;
use interlock_model::lock::LockMode;
use interlock_model::time::millis;
use tokio::time::Instant;

use super::Hold;
use super::answer::{Told, answered};
use crate::drill::ledger::{Ledger, Written};
use crate::drill::plan::What;
use crate::drill::talk::{Brief, Holding, Order, Role};
use crate::drill::verdict::Answer;

pub(super) struct Lock<'a> {
    client: &'a Client,
    brief: &'a Brief,
    ledger: Ledger,
    held: Option<(LockGrant, Instant)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Renew,
    /// Into the ledger.
    Note,
    Release,
}

impl From<Write> for What {
    fn from(write: Write) -> Self {
        match write {
            Write::Renew => Self::LockRenew,
            Write::Note => Self::LedgerWrite,
            Write::Release => Self::LockRelease,
        }
    }
}

impl<'a> Lock<'a> {
    pub(super) fn new(client: &'a Client, brief: &'a Brief) -> Self {
        let ledger = Ledger::new(brief.ledger.clone(), brief.guarded);
        Self { client, brief, ledger, held: None }
    }

    async fn renew(&mut self, token: LockToken) -> Told {
        let (resource, ttl_ms) = (self.brief.resource.clone(), self.brief.ttl_ms);
        let request = RenewRequest { resource, token, ttl_ms };
        let asked_at = Instant::now();
        let renewed = answered(|| self.client.renew_lock(&request)).await;
        if let (Ok(_), Some((_, leased_at))) = (&renewed, &mut self.held) {
            *leased_at = asked_at;
        }
        Told::of(&renewed)
    }

    async fn release(&self, token: LockToken) -> Told {
        let request = ReleaseRequest { resource: self.brief.resource.clone(), token };
        Told::of(&answered(|| self.client.release_lock(&request)).await)
    }

    /// The fence travels with the write, and whoever keeps the file compares it.
    async fn note(&self, fence: u64) -> Told {
        let (ledger, by) = (self.ledger.clone(), self.brief.role.to_string());
        let written = tokio::task::spawn_blocking(move || ledger.write(&by, fence)).await;
        match written.map_err(std::io::Error::other).flatten() {
            Ok(Written::Yes) => Told::new(Answer::Accepted, "written"),
            Ok(Written::Stale { .. }) => Told::new(Answer::Stale, "refused by the file"),
            Err(error) => Told::new(Answer::Unclear, error.to_string()),
        }
    }
}

impl Hold for Lock<'_> {
    type Write = Write;
    const HOLDING: Holding = Holding::Lock;
    const TAKE: What = What::LockAcquire;
    const ROUND: &'static [Write] = &[Write::Renew, Write::Note];

    fn last(_: Role) -> &'static [Write] {
        &[Write::Renew, Write::Note, Write::Release]
    }

    async fn take(&mut self, order: Order, wait: Duration) -> Told {
        // Two tries are two requests. A repetition of one whose answer was lost is not.
        let request = format!("{}-{order:?}", self.brief.worker);
        let request = AcquireRequest {
            resource: self.brief.resource.clone(),
            owner: self.brief.worker.as_str().parse().expect("a worker's name can be an owner's"),
            mode: LockMode::Exclusive,
            ttl_ms: self.brief.ttl_ms,
            wait_ms: millis(wait),
            request_id: Some(request.parse().expect("letters make a request's name")),
            token: None,
        };
        let asked_at = Instant::now();
        let granted = answered(|| self.client.acquire_lock(&request)).await;
        let told = Told::of(&granted);
        match granted {
            Ok(grant) => {
                self.held = Some((grant, asked_at));
                told
            }
            // A grant that cannot be read is none to work with.
            Err(_) if told.answer == Answer::Accepted => Told { answer: Answer::Unclear, ..told },
            Err(_) => told,
        }
    }

    async fn write(&mut self, write: Write) -> Told {
        let Some((grant, _)) = &self.held else { return Told::new(Answer::Unclear, "not held") };
        let (token, fence) = (grant.token.clone(), grant.fence);
        match write {
            Write::Renew => self.renew(token).await,
            Write::Note => self.note(fence).await,
            Write::Release => self.release(token).await,
        }
    }

    fn leased_at(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, leased_at)| *leased_at)
    }

    fn fence(&self) -> Option<u64> {
        self.held.as_ref().map(|(grant, _)| grant.fence)
    }

    fn token(&self) -> Option<LockToken> {
        self.held.as_ref().map(|(grant, _)| grant.token.clone())
    }
}
