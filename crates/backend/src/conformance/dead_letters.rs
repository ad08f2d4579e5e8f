//! Dead letters are kept until a person retries or deletes them.

use crate::verbs::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, DeleteRun, ListDeadLetters, ReadDeadLetter, ReadJob,
    RequestCancel, RetryDeadLetter,
};
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::run::{Ending, InboxEvent};
use interlock_model::{JobId, StepKey, TenantId, Timestamp};

use super::Subject;
use super::scene::{LETTERS_MAX, Scene, acme, ending, globex, idle, letter, name, new_job, running};
use crate::dead_letters::{DeadLetterCount, DeadLetterRetry};
use crate::{PageRequest, StoreError};

async fn letters(scene: &Scene, limit: usize, after: Option<String>) -> (Vec<DeadLetter>, Option<String>) {
    let page = scene
        .store
        .call(ListDeadLetters { tenant: acme(), page: PageRequest { limit, after } })
        .await
        .unwrap();
    assert!(page.items.len() <= limit);
    (page.items, page.next)
}

/// A run of acme whose one job was given up on.
async fn buried(scene: &Scene) -> DeadLetter {
    let run = scene.started(&acme()).await;
    let letter = letter(&scene.begin(&acme(), run).await);
    scene
        .store
        .call(AddDeadLetter { tenant: acme(), dead_letter: letter.clone(), dead_letters_max: LETTERS_MAX })
        .await
        .unwrap();
    letter
}

pub async fn a_buried_job_is_found_with_every_field(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let full = buried(&scene).await;
    // A result that belongs to no run has only these fields.
    let bare = DeadLetter {
        job: JobId { run: scene.fresh_run(), step: StepKey::item(&name("build.x-y"), 12), attempt: 10 },
        topic: None,
        code: LetterCode::ResultUnhandled,
        reason: "no \"run\" \\ \u{0} 🦀 has it".to_owned(),
        attempts: 0,
        last_error: None,
        buried_at: Timestamp::ZERO,
        result: None,
    };
    scene
        .store
        .call(AddDeadLetter { tenant: acme(), dead_letter: bare.clone(), dead_letters_max: LETTERS_MAX })
        .await
        .unwrap();
    for letter in [&full, &bare] {
        assert_eq!(
            scene.store.call(ReadDeadLetter { tenant: acme(), job: letter.job.clone() }).await.as_ref(),
            Ok(&Some(letter.clone()))
        );
        assert_eq!(
            scene.store.call(ReadDeadLetter { tenant: globex(), job: letter.job.clone() }).await,
            Ok(None)
        );
    }
    drop(scene);
    subject.reopen().await;
    let page = PageRequest { limit: 10, after: None };
    let kept = subject.store().call(ListDeadLetters { tenant: acme(), page: page.clone() }).await.unwrap();
    assert_eq!((kept.items, kept.next), (vec![bare, full], None));
}

pub async fn one_job_has_one_dead_letter_the_last(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let first = buried(&scene).await;
    let last = DeadLetter { attempts: 11, topic: None, last_error: None, ..first.clone() };
    scene
        .store
        .call(AddDeadLetter { tenant: acme(), dead_letter: last.clone(), dead_letters_max: LETTERS_MAX })
        .await
        .unwrap();
    assert_eq!(letters(&scene, 10, None).await, (vec![last.clone()], None));
    assert_eq!(
        scene.store.call(ReadDeadLetter { tenant: acme(), job: first.job.clone() }).await,
        Ok(Some(last))
    );
}

pub async fn a_turn_that_buries_a_job_is_one_write(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let mut turn = running(&taken);
    turn.buried = vec![letter(&turn.dispatched[0].id)];
    let mut stale = turn.clone();
    stale.version += 1;
    let refused = scene.commit(stale).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    assert_eq!(letters(&scene, 10, None).await, (Vec::new(), None));
    let expected = turn.buried.clone();
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(letters(&scene, 10, None).await, (expected, None));
}

pub async fn dead_letters_are_listed_newest_run_first_page_by_page(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 6).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        let run = scene.started(&acme()).await;
        expected.push(letter(&scene.begin(&acme(), run).await));
    }
    let foreign = letter(&new_job(scene.fresh_run(), 1).id);
    scene
        .store
        .call(AddDeadLetter { tenant: globex(), dead_letter: foreign.clone(), dead_letters_max: LETTERS_MAX })
        .await
        .unwrap();
    // The age of the run counts, not the order in which they were given up.
    for position in [3, 0, 4, 1, 2] {
        scene
            .store
            .call(AddDeadLetter {
                tenant: acme(),
                dead_letter: expected[position].clone(),
                dead_letters_max: LETTERS_MAX,
            })
            .await
            .unwrap();
    }
    expected.reverse();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let (page, next) = letters(&scene, 2, after).await;
        listed.extend(page);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, expected);
    assert_eq!(letters(&scene, 5, None).await, (expected, None), "a full page that is the last says so");
}

pub async fn a_dead_letter_is_deleted_once_and_only_by_its_tenant(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (first, second) = (buried(&scene).await, buried(&scene).await);
    let delete = async |tenant: TenantId, job: &JobId| {
        scene.store.call(DeleteDeadLetter { tenant, job: job.clone() }).await
    };
    let foreign = delete(globex(), &first.job).await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    assert_eq!(delete(acme(), &first.job).await, Ok(()));
    let again = delete(acme(), &first.job).await;
    assert!(matches!(again, Err(StoreError::NotFound { .. })), "{again:?}");
    assert_eq!(scene.store.call(ReadDeadLetter { tenant: acme(), job: first.job.clone() }).await, Ok(None));
    assert_eq!(letters(&scene, 10, None).await, (vec![second], None));
    assert!(
        scene.store.call(ReadJob { tenant: acme(), job: first.job.clone() }).await.unwrap().is_some(),
        "the job itself is still there"
    );
}

pub async fn deleting_a_run_deletes_the_dead_letters_of_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let kept = buried(&scene).await;
    let deleted = buried(&scene).await;
    let _ = scene
        .store
        .call(RequestCancel { tenant: acme(), run: deleted.job.run, by: "a test".to_owned() })
        .await
        .unwrap();
    let mut turn = idle(&scene.taken(&acme(), deleted.job.run).await);
    turn.dispatched = vec![new_job(deleted.job.run, 2)];
    turn.buried = vec![letter(&turn.dispatched[0].id)];
    let _ = scene.commit(turn).await.unwrap();
    scene.store.call(DeleteRun { tenant: acme(), run: deleted.job.run }).await.unwrap();
    assert_eq!(letters(&scene, 10, None).await, (vec![kept], None));
    assert_eq!(scene.store.call(ReadDeadLetter { tenant: acme(), job: deleted.job.clone() }).await, Ok(None));
    let late = scene.store.call(DeleteDeadLetter { tenant: acme(), job: deleted.job.clone() }).await;
    assert!(matches!(late, Err(StoreError::NotFound { .. })), "{late:?}");
}

pub async fn a_retried_dead_letter_is_posted_to_its_run_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let letter = buried(&scene).await;
    let retry = async || {
        scene
            .store
            .call(RetryDeadLetter {
                tenant: acme(),
                job: letter.job.clone(),
                by: "an \"operator\"".to_owned(),
            })
            .await
    };
    let foreign = scene
        .store
        .call(RetryDeadLetter { tenant: globex(), job: letter.job.clone(), by: "an operator".to_owned() })
        .await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    assert_eq!(scene.take(&acme(), letter.job.run).await, None);
    assert_eq!(retry().await, Ok(DeadLetterRetry::Posted));
    let again = retry().await;
    assert!(matches!(again, Err(StoreError::NotFound { .. })), "{again:?}");
    assert_eq!(letters(&scene, 10, None).await, (Vec::new(), None));
    let taken = scene.taken(&acme(), letter.job.run).await;
    let by = "an \"operator\"".to_owned();
    assert_eq!(taken.inbox, [InboxEvent::Retry { by, letter: Box::new(letter) }]);
}

pub async fn retries_at_once_reach_the_run_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let letter = buried(&scene).await;
    let operator = acme();
    let asked = (0..8).map(|_| {
        scene.store.call(RetryDeadLetter {
            tenant: operator.clone(),
            job: letter.job.clone(),
            by: "an operator".to_owned(),
        })
    });
    let answers = futures_util::future::join_all(asked).await;
    assert_eq!(
        answers.iter().filter(|answer| **answer == Ok(DeadLetterRetry::Posted)).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(scene.taken(&acme(), letter.job.run).await.inbox.len(), 1);
}

pub async fn a_dead_letter_whose_run_has_ended_or_was_deleted_is_not_retried_and_stays(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let ended = buried(&scene).await;
    let _ = scene
        .store
        .call(RequestCancel { tenant: acme(), run: ended.job.run, by: "a test".to_owned() })
        .await
        .unwrap();
    let taken = scene.taken(&acme(), ended.job.run).await;
    let _ = scene.commit(ending(&taken, Ending::Cancelled)).await.unwrap();
    let missing = letter(&new_job(scene.fresh_run(), 1).id);
    scene
        .store
        .call(AddDeadLetter { tenant: acme(), dead_letter: missing.clone(), dead_letters_max: LETTERS_MAX })
        .await
        .unwrap();
    for (letter, answer) in [(&ended, DeadLetterRetry::RunEnded), (&missing, DeadLetterRetry::RunGone)] {
        let retried = scene
            .store
            .call(RetryDeadLetter { tenant: acme(), job: letter.job.clone(), by: "an operator".to_owned() })
            .await;
        assert_eq!(retried, Ok(answer));
    }
    assert_eq!(letters(&scene, 10, None).await, (vec![missing, ended.clone()], None));
    assert_eq!(scene.take(&acme(), ended.job.run).await, None, "nothing was posted");
}

pub async fn the_dead_letters_of_the_oldest_runs_make_room_and_are_counted(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 4).await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        let run = scene.started(&acme()).await;
        jobs.push(scene.begin(&acme(), run).await);
    }
    let bury = async |position: usize| {
        scene
            .store
            .call(AddDeadLetter { tenant: acme(), dead_letter: letter(&jobs[position]), dead_letters_max: 2 })
            .await
            .unwrap();
        let count = scene.store.call(CountDeadLetters { tenant: acme() }).await.unwrap();
        let (kept, _) = letters(&scene, 10, None).await;
        assert_eq!(count.kept as usize, kept.len());
        let position_of = |letter: &DeadLetter| jobs.iter().position(|job| *job == letter.job).unwrap();
        (kept.iter().map(position_of).collect::<Vec<_>>(), count.dropped)
    };
    assert_eq!(bury(1).await, (vec![1], 0));
    assert_eq!(bury(2).await, (vec![2, 1], 0));
    assert_eq!(bury(2).await, (vec![2, 1], 0), "one job has one letter");
    assert_eq!(bury(3).await, (vec![3, 2], 1));
    // What comes now is not what goes, however old its run is.
    assert_eq!(bury(0).await, (vec![3, 0], 2));
    // A turn is held to the same bound.
    let _ = scene
        .store
        .call(RequestCancel { tenant: acme(), run: jobs[1].run, by: "a test".to_owned() })
        .await
        .unwrap();
    let mut turn = idle(&scene.taken(&acme(), jobs[1].run).await);
    (turn.buried, turn.dead_letters_max) = (vec![letter(&jobs[1])], 1);
    let _ = scene.commit(turn).await.unwrap();
    let count = scene.store.call(CountDeadLetters { tenant: acme() }).await;
    assert_eq!(count, Ok(DeadLetterCount { kept: 1, dropped: 4 }));
    assert_eq!(letters(&scene, 10, None).await, (vec![letter(&jobs[1])], None));
    assert_eq!(scene.store.call(CountDeadLetters { tenant: globex() }).await, Ok(DeadLetterCount::default()));
}

pub async fn dead_letters_are_counted_whatever_removes_them(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let (retried, deleted, of_deleted_run) =
        (buried(&scene).await, buried(&scene).await, buried(&scene).await);
    assert_eq!(
        scene.store.call(CountDeadLetters { tenant: acme() }).await,
        Ok(DeadLetterCount { kept: 3, dropped: 0 })
    );
    let _ = scene
        .store
        .call(RetryDeadLetter { tenant: acme(), job: retried.job.clone(), by: "an operator".to_owned() })
        .await
        .unwrap();
    scene.store.call(DeleteDeadLetter { tenant: acme(), job: deleted.job.clone() }).await.unwrap();
    assert_eq!(
        scene.store.call(CountDeadLetters { tenant: acme() }).await,
        Ok(DeadLetterCount { kept: 1, dropped: 0 })
    );
    scene.store.call(DeleteRun { tenant: acme(), run: of_deleted_run.job.run }).await.unwrap();
    assert_eq!(scene.store.call(CountDeadLetters { tenant: acme() }).await, Ok(DeadLetterCount::default()));
}
