//! The store: the verbs are scripts, and this is what calls them.

use std::sync::Arc;

use interlock_backend::{Bus, StoreError};
use interlock_model::{Clock, InstanceId};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::Admissions;
use crate::connect::Connection;
use crate::link::{Link, damaged};
use crate::pulse;
use crate::script::{Call, Fields, Unreadable};

/// The contract, fulfilled by Redis.
pub struct RedisStore {
    pub(crate) link: Arc<Link>,
    pub(crate) admissions: Admissions,
    instance: InstanceId,
    /// The tasks that serve this store end with it.
    tasks: CancellationToken,
    _end: DropGuard,
}

impl RedisStore {
    /// A store over an open connection, for one start of one process.
    pub async fn open(connection: Connection, instance: InstanceId) -> Result<Self, StoreError> {
        Self::on(connection, instance, None).await
    }

    /// The same on a clock that a test moves.
    #[cfg(feature = "testing")]
    pub async fn on_clock(
        connection: Connection,
        instance: InstanceId,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        Self::on(connection, instance, Some(clock)).await
    }

    async fn on(
        connection: Connection,
        instance: InstanceId,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, StoreError> {
        let link = Arc::new(Link::new(connection, clock));
        pulse::beat(&link, &instance).await?;
        let tasks = CancellationToken::new();
        tokio::spawn(tasks.clone().run_until_cancelled_owned(pulse::run(link.clone(), instance.clone())));
        let admissions = Admissions::start(&link, &tasks);
        let end = tasks.clone().drop_guard();
        Ok(Self { link, admissions, instance, tasks, _end: end })
    }

    /// Hears of changed limits as soon as the bus says so, and not only with the next pulse.
    pub fn follow(&self, bus: &dyn Bus) {
        let following = pulse::follow(bus.subscribe(), self.link.clone(), self.instance.clone());
        tokio::spawn(self.tasks.clone().run_until_cancelled_owned(following));
    }

    /// Asks a verb and reads its answer.
    pub(crate) async fn ask<T>(
        &self,
        call: Call,
        read: impl FnOnce(Fields) -> Result<T, Unreadable>,
    ) -> Result<T, StoreError> {
        let script = call.script.name;
        let fields = self.link.call(call).await?;
        read(fields).map_err(|error| damaged(script, error))
    }
}
