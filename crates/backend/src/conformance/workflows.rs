//! Documents and their versions.

use crate::verbs::{DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow};
use interlock_model::admission::StartOutcome;
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, deploy, document, globex, name, with_version};
use crate::{PageRequest, StoreError};

pub async fn saving_again_makes_the_next_version_and_keeps_the_old(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let mut changed = document();
    changed.description = Some("the second".to_owned());
    assert_eq!(
        scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: changed.clone() }).await,
        Ok(2)
    );
    let current =
        scene.store.call(ReadWorkflow { tenant: acme(), id: deploy() }).await.unwrap().expect("it is there");
    assert_eq!((current.version, &current.document), (2, &changed));
    let old = scene
        .store
        .call(ReadWorkflowVersion { tenant: acme(), id: deploy(), version: 1 })
        .await
        .unwrap()
        .expect("it is kept");
    assert_eq!((old.version, old.document), (1, document()));
    assert_eq!(
        scene.store.call(ReadWorkflowVersion { tenant: acme(), id: deploy(), version: 3 }).await,
        Ok(None)
    );
    assert_eq!(
        scene.store.call(ReadWorkflow { tenant: globex(), id: deploy() }).await.unwrap().map(|it| it.version),
        Some(1)
    );
}

pub async fn a_deleted_workflow_admits_nothing_and_comes_back_with_the_next_version(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 5).await;
    scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await.unwrap();
    let again = scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await;
    assert!(matches!(again, Err(StoreError::NotFound { .. })), "{again:?}");
    assert_eq!(scene.store.call(ReadWorkflow { tenant: acme(), id: deploy() }).await, Ok(None));
    assert!(
        scene
            .store
            .call(ReadWorkflowVersion { tenant: acme(), id: deploy(), version: 1 })
            .await
            .unwrap()
            .is_some()
    );
    let answer = scene.start(&acme(), None).await;
    assert!(matches!(answer, StartOutcome::DefinitionChanged { current: None, .. }), "{answer:?}");
    assert_eq!(
        scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document() }).await,
        Ok(2)
    );
    let start = with_version(scene.request(&acme(), None, json!({})), 2);
    assert!(matches!(scene.admit(start).await, StartOutcome::Admitted { .. }));
}

pub async fn workflows_are_listed_newest_first_page_by_page(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    for id in ["zeta", "alpha", "removed", "deploy"] {
        subject.elapse(std::time::Duration::from_millis(5)).await;
        scene.store.call(SaveWorkflow { tenant: acme(), id: name(id), document: document() }).await.unwrap();
    }
    scene.store.call(DeleteWorkflow { tenant: acme(), id: name("removed") }).await.unwrap();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = scene
            .store
            .call(ListWorkflows { tenant: acme(), page: PageRequest { limit: 2, after } })
            .await
            .unwrap();
        listed.extend(page.items.iter().map(|it| (it.id.to_string(), it.version)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = [("deploy", 2), ("alpha", 1), ("zeta", 1)].map(|(id, version)| (id.to_owned(), version));
    assert_eq!(listed, expected);
}
