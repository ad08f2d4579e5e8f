//! The embedded store keeps every rule, and answers like the reference.

use std::sync::Arc;

use interlock_backend::conformance::inspection::LocalRows;
use interlock_backend::conformance::{OnManualClock, versus_memory};
use interlock_backend_embedded::open;
use interlock_model::Clock;

interlock_backend::conformance_suite!(OnManualClock::new(in_temporary_folder()));

fn in_temporary_folder() -> impl Fn(Arc<dyn Clock>) -> Arc<dyn LocalRows> + Send + Sync {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    move |clock| Arc::new(open(folder.path(), clock).expect("the folder is free"))
}

#[tokio::test]
async fn random_calls_are_answered_like_the_reference() {
    for seed in versus_memory::SEEDS {
        let mut subject = OnManualClock::new(in_temporary_folder());
        let clock = subject.clock();
        versus_memory::every_answer_equals_the_references(&mut subject, clock, seed, versus_memory::CALLS)
            .await;
    }
}
