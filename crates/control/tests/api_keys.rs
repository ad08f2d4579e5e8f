//! An installation that had keys once stays closed, whatever became of its store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use interlock_backend::clock::RuntimeClock;
use interlock_backend::keys::KeyMark;
use interlock_backend::{InProcessBus, Store, StoreError, memory};
use interlock_control::api_keys::{ApiKeys, KeyError, KeyTerms};
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::Timestamp;

#[derive(Default)]
struct Mark(AtomicBool);

#[async_trait]
impl KeyMark for Mark {
    async fn is_set(&self) -> Result<bool, StoreError> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    async fn set(&self) -> Result<(), StoreError> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A process on a new store.
fn process() -> Arc<Control> {
    let clock = Arc::new(RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let foundation = Foundation {
        store: Store::new(Arc::new(memory::store(clock.clone()))),
        bus: Arc::new(InProcessBus::default()),
        clock,
        identity: Identity::from_seed(1),
        instance: "i-1".parse().unwrap(),
        mailbox: None,
        probes: Vec::new(),
    };
    Control::new(foundation, Settings::default())
}

#[tokio::test]
async fn a_store_without_keys_is_open_unless_the_installation_had_keys() {
    let mark = Arc::new(Mark::default());
    let load = |bootstrap| ApiKeys::load(process().process.clone(), bootstrap, Some(mark.clone()));
    assert!(!load(None).await.unwrap().are_needed());
    assert!(!mark.is_set().await.unwrap(), "there was no key");
    mark.set().await.unwrap();
    assert!(matches!(load(None).await, Err(KeyError::Lost)));
    assert!(load(Some("a-key-of-the-command-line")).await.unwrap().are_needed());
}

#[tokio::test]
async fn keys_that_a_process_finds_set_the_mark() {
    let control = process();
    let keys = ApiKeys::load(control.process.clone(), None, None).await.unwrap();
    keys.create(KeyTerms::admin("first"), None).await.unwrap();
    let mark = Arc::new(Mark::default());
    let keys = ApiKeys::load(control.process.clone(), None, Some(mark.clone())).await.unwrap();
    assert!(keys.are_needed() && mark.is_set().await.unwrap());
}
