//! Documents about the installation, and what processes count of roll-outs.

use crate::verbs::{DeleteFigures, ReadDocument, ReadFigures, SaveDocument, SaveFigures};
use interlock_model::{InstanceId, RolloutId};

use super::Subject;
use super::scene::name;
use crate::documents::{DOCUMENT_BYTES_MAX, Document, DocumentName, FIGURES_BYTES_MAX, MEMBERS_MAX};
use crate::{Store, StoreError};

const NAME: DocumentName = DocumentName::Contention;

fn saved(version: u64, text: &str) -> Document {
    Document { version, text: text.to_owned() }
}

pub async fn a_document_is_saved_only_over_the_version_that_was_read(subject: &mut dyn Subject) {
    let store = subject.store();
    assert_eq!(store.call(ReadDocument { name: NAME }).await, Ok(None));
    assert_eq!(
        store.call(SaveDocument { name: NAME, expected: 1, text: "too early".to_owned() }).await,
        Ok(false)
    );
    assert_eq!(store.call(SaveDocument { name: NAME, expected: 0, text: "one".to_owned() }).await, Ok(true));
    assert_eq!(store.call(ReadDocument { name: NAME }).await, Ok(Some(saved(1, "one"))));
    assert_eq!(
        store.call(SaveDocument { name: NAME, expected: 0, text: "another one".to_owned() }).await,
        Ok(false)
    );
    assert_eq!(store.call(SaveDocument { name: NAME, expected: 1, text: "two".to_owned() }).await, Ok(true));
    assert_eq!(
        store.call(SaveDocument { name: NAME, expected: 1, text: "another two".to_owned() }).await,
        Ok(false)
    );
    assert_eq!(store.call(ReadDocument { name: NAME }).await, Ok(Some(saved(2, "two"))));
}

pub async fn a_save_that_is_repeated_is_answered_the_same(subject: &mut dyn Subject) {
    let store = subject.store();
    for _ in 0..2 {
        assert_eq!(
            store.call(SaveDocument { name: NAME, expected: 0, text: "one".to_owned() }).await,
            Ok(true)
        );
    }
    assert_eq!(store.call(ReadDocument { name: NAME }).await, Ok(Some(saved(1, "one"))), "it was done once");
    store.call(SaveDocument { name: NAME, expected: 1, text: "one".to_owned() }).await.unwrap();
    assert_eq!(
        store.call(SaveDocument { name: NAME, expected: 0, text: "one".to_owned() }).await,
        Ok(false),
        "another call has saved it since"
    );
    assert_eq!(store.call(ReadDocument { name: NAME }).await, Ok(Some(saved(2, "one"))));
}

pub async fn a_document_is_one_for_all_and_survives_a_reopening(subject: &mut dyn Subject) {
    let text = r#"{"fence":9007199254740993,"empty":[],"odd":"\u0000 é 🦀 \" \\"}"#;
    assert_eq!(
        subject.store().call(SaveDocument { name: NAME, expected: 0, text: text.to_owned() }).await,
        Ok(true)
    );
    subject
        .store()
        .call(SaveFigures { rollout: name("ro-1"), instance: name("i-1"), figures: text.to_owned() })
        .await
        .unwrap();
    subject.reopen().await;
    assert_eq!(
        subject.store().call(ReadDocument { name: NAME }).await,
        Ok(Some(saved(1, text))),
        "byte for byte"
    );
    assert_eq!(
        subject.store().call(ReadFigures { rollout: name("ro-1") }).await,
        Ok(vec![(name("i-1"), text.to_owned())])
    );
}

pub async fn a_document_beyond_its_bound_is_refused(subject: &mut dyn Subject) {
    let store = subject.store();
    let long = "x".repeat(DOCUMENT_BYTES_MAX);
    assert_eq!(store.call(SaveDocument { name: NAME, expected: 0, text: long.clone() }).await, Ok(true));
    let refused = store.call(SaveDocument { name: NAME, expected: 1, text: format!("{long}x") }).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.call(ReadDocument { name: NAME }).await.unwrap().unwrap().version, 1);
    let refused = store
        .call(SaveFigures {
            rollout: name("ro-1"),
            instance: name("i-1"),
            figures: "x".repeat(FIGURES_BYTES_MAX + 1).clone(),
        })
        .await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
}

pub async fn saves_at_once_are_decided_for_one_of_them(subject: &mut dyn Subject) {
    let mut saving = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = subject.store();
        saving.spawn(async move {
            store
                .call(SaveDocument { name: NAME, expected: 0, text: format!("by {number}") })
                .await
                .unwrap()
                .then_some(number)
        });
    }
    let winners: Vec<i32> = saving.join_all().await.into_iter().flatten().collect();
    let [winner] = winners.as_slice() else { panic!("{winners:?} have saved it") };
    assert_eq!(
        subject.store().call(ReadDocument { name: NAME }).await,
        Ok(Some(saved(1, &format!("by {winner}"))))
    );
}

pub async fn figures_are_kept_by_rollout_and_instance(subject: &mut dyn Subject) {
    let store = subject.store();
    let save = async |rollout: &str, instance: &str, text: &str| {
        store
            .call(SaveFigures { rollout: name(rollout), instance: name(instance), figures: text.to_owned() })
            .await
            .unwrap();
    };
    save("ro-1", "i-2", "two").await;
    save("ro-1", "i-1", "old").await;
    save("ro-1", "i-1", "one").await;
    save("ro-10", "i-1", "of another").await;
    let of = async |rollout: &str| store.call(ReadFigures { rollout: name(rollout) }).await.unwrap();
    let figures = |instance: &str, text: &str| (name::<InstanceId>(instance), text.to_owned());
    assert_eq!(of("ro-1").await, [figures("i-1", "one"), figures("i-2", "two")], "by name, the last of each");
    store.call(DeleteFigures { rollout: name("ro-1") }).await.unwrap();
    assert!(of("ro-1").await.is_empty());
    assert_eq!(of("ro-10").await, [figures("i-1", "of another")]);
    store.call(DeleteFigures { rollout: name("ro-1") }).await.expect("forgetting again is safe");
}

pub async fn figures_have_a_bound(subject: &mut dyn Subject) {
    let rollout: RolloutId = name("ro-1");
    for hundred in 0..MEMBERS_MAX / 100 {
        let mut saving = tokio::task::JoinSet::new();
        for one in 0..100 {
            let (store, instance): (Store, InstanceId) =
                (subject.store(), name(&format!("i-{hundred}-{one}")));
            saving.spawn(async move {
                store
                    .call(SaveFigures {
                        rollout: name("ro-1"),
                        instance: instance.clone(),
                        figures: "1".to_owned(),
                    })
                    .await
            });
        }
        assert!(saving.join_all().await.iter().all(Result::is_ok));
    }
    let store = subject.store();
    let refused = store
        .call(SaveFigures { rollout: rollout.clone(), instance: name("one-more"), figures: "1".to_owned() })
        .await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    store
        .call(SaveFigures { rollout: rollout.clone(), instance: name("i-0-0"), figures: "2".to_owned() })
        .await
        .expect("a known process may save again");
    assert_eq!(store.call(ReadFigures { rollout: rollout.clone() }).await.unwrap().len(), MEMBERS_MAX);
}
