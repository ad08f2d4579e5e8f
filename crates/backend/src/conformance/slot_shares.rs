//! Fair queues: whose runs go next, and what their groups are charged.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::run::{Ending, RunEvent, RunStatus};
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, approval, ending, idle, name, with_request};
use super::slots::queued;
use crate::verbs::{DeleteLimit, MoveQueuedRun, RequestCancel};

/// Runs that wait in the rule about a long queue.
const MANY: u32 = 10_000;

/// A limit with a fair queue.
fn fair(max_runs: u32) -> Value {
    json!({"max_runs": max_runs, "on_full": "queue",
        "queue": {"max": 100_000, "order": "fair", "fair_by": "input.user"}})
}

fn fair_with(max_runs: u32, weights: Value) -> Value {
    let mut document = fair(max_runs);
    document["queue"]["weights"] = weights;
    document
}

fn user(user: &str) -> Value {
    json!({"user": user})
}

async fn scene(subject: &dyn Subject, document: Value) -> Scene {
    let scene = Scene::with_cap(subject, 1_000).await;
    scene.save_limit("shared", document).await;
    scene
}

/// Two users who always have runs that wait, and how long a run of each takes.
struct Users<'a> {
    scene: &'a Scene,
    subject: &'a dyn Subject,
    times: [(&'static str, Duration); 2],
    /// Runs that wait.
    waiting: [Vec<RunId>; 2],
    /// The user, the run, and what is left of its time.
    live: Vec<(usize, RunId, Duration)>,
    /// Time for which runs of each have held slots.
    held: [Duration; 2],
}

impl<'a> Users<'a> {
    async fn new(scene: &'a Scene, subject: &'a dyn Subject, times: [(&'static str, Duration); 2]) -> Self {
        let mut users = Self {
            scene,
            subject,
            times,
            waiting: Default::default(),
            live: Vec::new(),
            held: [Duration::ZERO; 2],
        };
        for number in [0, 1, 0, 1, 0, 1, 0, 1] {
            users.start(number).await;
        }
        users
    }

    async fn start(&mut self, number: usize) {
        let (name, time) = self.times[number];
        match self.scene.arrive(user(name)).await {
            StartOutcome::Admitted { run, .. } => self.live.push((number, run, time)),
            outcome => self.waiting[number].push(queued(&outcome).0),
        }
    }

    /// The next run ends, and its user starts another one.
    async fn step(&mut self) {
        let next = self.live.iter().map(|(.., left)| *left).min().expect("all slots are taken");
        self.subject.elapse(next).await;
        for (number, _, left) in &mut self.live {
            self.held[*number] += next;
            *left -= next;
        }
        let at = self.live.iter().position(|(.., left)| left.is_zero()).expect("one has ended");
        let (number, run, _) = self.live.remove(at);
        self.start(number).await;
        assert_eq!(self.scene.end_run(run).await, 1, "its slot goes to the next");
        for (number, (_, time)) in self.times.into_iter().enumerate() {
            let mut still = Vec::new();
            for run in std::mem::take(&mut self.waiting[number]) {
                if self.scene.waits(run).await.is_some() {
                    still.push(run);
                } else {
                    self.scene.begin_granted(run).await;
                    self.live.push((number, run, time));
                }
            }
            self.waiting[number] = still;
        }
    }

    /// The share of the first user in all that was held, in thousandths.
    async fn share_after(&mut self, steps: usize) -> u128 {
        for _ in 0..steps {
            self.step().await;
        }
        let [first, second] = self.held.map(|held| held.as_millis());
        first * 1_000 / (first + second)
    }
}

pub async fn short_and_long_runs_get_the_same_slot_time(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(2)).await;
    let times = [("long", Duration::from_secs(10)), ("short", Duration::from_secs(1))];
    let share = Users::new(&scene, subject, times).await.share_after(250).await;
    assert!((475..=525).contains(&share), "the user of long runs has {share} of 1000");
}

pub async fn slot_time_is_shared_by_weight(subject: &mut dyn Subject) {
    let scene = scene(subject, fair_with(2, json!({"vip": 3}))).await;
    let times = [("vip", Duration::from_secs(2)), ("other", Duration::from_secs(3))];
    let share = Users::new(&scene, subject, times).await.share_after(200).await;
    assert!((712..=788).contains(&share), "three of four parts are {share} of 1000");
}

pub async fn a_newcomer_does_not_wait_behind_ten_thousand_runs_of_another(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    let mut live = scene.live(user("heavy")).await;
    let one = scene.counted(None, user("heavy")).await;
    for _ in 0..MANY / 100 {
        let starts = [(); 100].map(|()| with_request(one.clone(), |request| request.run = scene.fresh_run()));
        for answer in join_all(starts.map(|start| scene.admit(start))).await {
            queued(&answer);
        }
    }
    assert_eq!(scene.usage("shared", "").await, (1, MANY));
    for _ in 0..3 {
        live = follow(&scene, live).await;
    }
    let (newcomer, _, position) = queued(&scene.arrive(user("light")).await);
    assert!(position.is_some_and(|position| position <= 2), "{position:?}");
    assert_eq!(scene.waits(newcomer).await, Some((name("shared"), position)));
    let first = follow(&scene, live).await;
    assert!(newcomer == first || newcomer == follow(&scene, first).await, "it goes first or second");
}

/// Ends the live run and begins the one that follows it.
async fn follow(scene: &Scene, live: RunId) -> RunId {
    let queue = scene.queue("shared", "").await;
    assert_eq!(scene.end_run(live).await, 1, "its slot goes to the next");
    let still = scene.queue("shared", "").await;
    let next = queue.into_iter().find(|run| !still.contains(run)).expect("one has got the slot");
    scene.begin_granted(next).await;
    next
}

pub async fn an_idle_group_brings_one_turn_with_it(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    let mut live = scene.live(user("idle")).await;
    for _ in 0..30 {
        scene.waiting_run(user("busy")).await;
    }
    for _ in 0..20 {
        subject.elapse(Duration::from_secs(10)).await;
        live = follow(&scene, live).await;
    }
    // Its group has used nothing meanwhile, and gains no more than one run by that.
    let mut back = Vec::new();
    for _ in 0..6 {
        back.push(scene.waiting_run(user("idle")).await);
    }
    let mut order = String::new();
    for _ in 0..8 {
        subject.elapse(Duration::from_secs(10)).await;
        live = follow(&scene, live).await;
        order.push(if back.contains(&live) { 'i' } else { 'b' });
    }
    assert!(!order.contains("iii"), "{order}");
    assert!((3..=5).contains(&order.matches('i').count()), "{order}");
}

pub async fn the_end_of_a_run_corrects_what_it_was_charged(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    // Runs take a minute, as far as is known.
    let first = scene.live(user("c")).await;
    subject.elapse(Duration::from_mins(1)).await;
    scene.end_run(first).await;
    let mut live = scene.live(user("a")).await;
    for of in ["a", "b", "a", "b", "a", "b", "a", "b"] {
        scene.waiting_run(user(of)).await;
    }
    let users = async |live: RunId| {
        let start = scene.store.call(crate::verbs::ReadRun { tenant: acme(), run: live }).await.unwrap();
        start.expect("it exists").start.input["user"].as_str().unwrap().to_owned()
    };
    // The first of `a` takes three minutes: more than it was charged. Then `b` has the next three.
    subject.elapse(Duration::from_mins(3)).await;
    let mut order = String::new();
    for _ in 0..4 {
        live = follow(&scene, live).await;
        order += &users(live).await;
        // Less than what it is charged by now.
        subject.elapse(Duration::from_secs(30)).await;
    }
    assert_eq!(order, "bbbb", "two minutes are less than three");
    for _ in 0..2 {
        scene.waiting_run(user("b")).await;
    }
    subject.elapse(Duration::from_mins(10)).await;
    live = follow(&scene, live).await;
    assert_eq!(users(live).await, "a");
}

pub async fn groups_take_turns_before_any_run_has_ended(subject: &mut dyn Subject) {
    let scene = scene(subject, fair_with(1, json!({"vip": 3}))).await;
    let mut live = scene.live(user("bob")).await;
    for _ in 0..11 {
        scene.waiting_run(user("bob")).await;
    }
    let mut vip = Vec::new();
    for _ in 0..12 {
        vip.push(scene.waiting_run(user("vip")).await);
    }
    let mut order = String::new();
    for _ in 0..12 {
        subject.elapse(Duration::from_millis(100)).await;
        live = follow(&scene, live).await;
        order.push(if vip.contains(&live) { 'v' } else { 'b' });
    }
    assert!((8..=10).contains(&order.matches('v').count()), "three of four are the heavier group's: {order}");
}

pub async fn the_time_of_approvals_is_not_charged(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    let live = scene.live(user("asks")).await;
    let waiting = [scene.waiting_run(user("asks")).await, scene.waiting_run(user("works")).await];
    subject.elapse(Duration::from_secs(5)).await;
    let taken = scene.taken(&acme(), live).await;
    let mut turn = idle(&taken);
    for event in [RunEvent::Start, RunEvent::OpenApproval] {
        turn.head.status = turn.head.status.apply(event).expect("a run asks");
    }
    assert_eq!(turn.head.status, RunStatus::Waiting);
    turn.approvals_opened = vec![approval(live, taken.now)];
    turn.continues = true;
    let _ = scene.commit(turn).await.expect("the turn is in time");
    subject.elapse(Duration::from_hours(10)).await;
    let taken = scene.taken(&acme(), live).await;
    let mut turn = ending(&taken, Ending::Succeeded);
    turn.approvals_withdrawn = vec![approval(live, taken.now).job];
    assert_eq!(scene.commit(turn).await.expect("the turn is in time").granted, 1);
    // `works` goes next, and holds its slot for longer than the five seconds.
    assert_eq!(scene.waits(waiting[1]).await, None);
    scene.begin_granted(waiting[1]).await;
    for _ in 0..3 {
        scene.waiting_run(user("works")).await;
    }
    subject.elapse(Duration::from_mins(1)).await;
    assert_eq!(scene.end_run(waiting[1]).await, 1);
    assert_eq!(scene.waits(waiting[0]).await, None, "ten hours of waiting cost nothing");
}

pub async fn runs_leave_a_fair_queue_and_move_in_it(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    let live = scene.live(user("a")).await;
    let a = [scene.waiting_run(user("a")).await, scene.waiting_run(user("a")).await];
    let b = [scene.waiting_run(user("b")).await, scene.waiting_run(user("b")).await];
    let c = scene.waiting_run(user("c")).await;
    assert_eq!(scene.queue("shared", "").await.len(), 5);
    for run in [a[0], a[1], b[0], b[1], c] {
        let (_, position) = scene.waits(run).await.expect("it waits");
        let listed = scene.queue("shared", "").await.iter().position(|other| *other == run).unwrap() + 1;
        assert_eq!(position, Some(listed as u64), "its position is its place in the list");
    }
    // Within a group the higher priority goes first.
    let StartOutcome::Queued { run: urgent, .. } = scene.arrive_with(9, user("b")).await else {
        panic!("it waits")
    };
    let of_b = async |scene: &Scene| {
        let queue = scene.queue("shared", "").await;
        queue.into_iter().filter(|run| *run == urgent || b.contains(run)).collect::<Vec<_>>()
    };
    assert_eq!(of_b(&scene).await, [urgent, b[0], b[1]]);
    let moved = async |run: RunId, to_front: bool| {
        scene.store.call(MoveQueuedRun { tenant: acme(), run, to_front }).await.expect("the store is up")
    };
    assert!(moved(urgent, false).await);
    assert_eq!(of_b(&scene).await, [b[0], b[1], urgent]);
    assert!(moved(a[1], true).await);
    assert_eq!(scene.waits(a[1]).await, Some((name("shared"), Some(1))), "before all groups");
    // One that is cancelled leaves its group; the group of one that has no other is forgotten.
    for run in [c, b[0]] {
        let cancel = RequestCancel { tenant: acme(), run, by: "op".to_owned() };
        let _ = scene.store.call(cancel).await.expect("the store is up");
        let taken = scene.taken(&acme(), run).await;
        let _ = scene.commit(ending(&taken, Ending::Cancelled)).await.expect("the turn is in time");
    }
    let mut live = live;
    let mut order = Vec::new();
    for _ in 0..4 {
        let listed = scene.queue("shared", "").await;
        live = follow(&scene, live).await;
        assert_eq!(live, listed[0], "the first of the list goes next");
        order.push(live);
    }
    assert_eq!(order[0], a[1]);
    assert_eq!(scene.usage("shared", "").await, (1, 0));
    for run in [a[0], b[1], urgent] {
        assert!(order.contains(&run), "{run} was lost");
    }
}

pub async fn nothing_is_lost_when_a_queue_becomes_fair_and_back(subject: &mut dyn Subject) {
    let scene = scene(subject, json!({"max_runs": 1, "on_full": "queue"})).await;
    let mut live = scene.live(user("a")).await;
    let mut waiting = Vec::new();
    for of in ["a", "a", "a", "b"] {
        waiting.push(scene.waiting_run(user(of)).await);
    }
    scene.save_limit("shared", fair(1)).await;
    for of in ["b", "c", "c"] {
        waiting.push(scene.waiting_run(user(of)).await);
    }
    assert_eq!(scene.queue("shared", "").await.len(), 7);
    // Those that have waited before are one group, beside the new ones.
    live = follow(&scene, live).await;
    waiting.retain(|run| *run != live);
    live = follow(&scene, live).await;
    waiting.retain(|run| *run != live);
    assert_eq!((waiting.len(), scene.usage("shared", "").await), (5, (1, 5)));
    scene.save_limit("shared", json!({"max_runs": 1, "on_full": "queue"})).await;
    waiting.push(scene.waiting_run(user("d")).await);
    // The limit is gone: what waits in its groups starts.
    live = follow(&scene, live).await;
    assert_eq!(live, waiting.remove(0), "in the order of their arrival again");
    scene.save_limit("shared", fair(1)).await;
    scene.waiting_run(user("e")).await;
    let delete = DeleteLimit { tenant: acme(), name: name("shared"), replaces: None };
    let _ = scene.store.call(delete).await.expect("the limit exists");
    for run in waiting {
        assert_eq!(scene.waits(run).await, None, "it has its slots");
        scene.begin_granted(run).await;
    }
    assert_eq!(scene.usage("shared", "").await.1, 0);
}

pub async fn a_queue_by_arrival_becomes_one_by_priority_and_back(subject: &mut dyn Subject) {
    let in_order =
        |order: &str| json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 10, "order": order}});
    let scene = scene(subject, in_order("fifo")).await;
    let mut live = scene.live(user("a")).await;
    let mut waiting = Vec::new();
    for priority in [0, 9, 3] {
        waiting.push(queued(&scene.arrive_with(priority, user("a")).await).0);
    }
    let listed = async |of: [usize; 4], waiting: &[RunId]| {
        assert_eq!(scene.queue("shared", "").await, of.map(|at| waiting[at]));
    };
    scene.save_limit("shared", in_order("priority")).await;
    waiting.push(queued(&scene.arrive_with(6, user("a")).await).0);
    listed([1, 3, 2, 0], &waiting).await;
    scene.save_limit("shared", in_order("fifo")).await;
    listed([0, 1, 2, 3], &waiting).await;
    waiting.push(scene.waiting_run(user("a")).await);
    for run in waiting {
        live = follow(&scene, live).await;
        assert_eq!(live, run, "in the order of their arrival");
    }
}

pub async fn fair_queues_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = scene(subject, fair(1)).await;
    let live = scene.live(user("a")).await;
    for of in ["a", "b"] {
        scene.waiting_run(user(of)).await;
    }
    let before = scene.queue("shared", "").await;
    drop(scene);
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.queue("shared", "").await, before);
    follow(&scene, live).await;
}
