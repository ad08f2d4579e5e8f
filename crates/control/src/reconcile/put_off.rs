//! Results that found their run busy, and whose time to come again is there.

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::StoreError;
use interlock_model::TenantId;

use crate::service::Control;

/// Results of one tenant that one step takes, and how many of them are delivered at once. What is taken is due again when it
/// was not delivered for a while, so no more is taken than is delivered well before that.
pub(super) const RESULTS_MAX: usize = 128;
const AT_ONCE: usize = 32;

/// Delivers the tenant's due results. Returns how many there were.
pub(super) async fn deliver(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let due = control.store.take_put_off(tenant, RESULTS_MAX).await?;
    let count = due.len();
    let again =
        stream::iter(due).for_each_concurrent(AT_ONCE, |result| control.deliver_again(tenant, result));
    again.await;
    Ok(count)
}
