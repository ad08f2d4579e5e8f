use super::*;

fn topic(tenant: &str, topic: &str) -> Place {
    Place { tenant: tenant.parse().unwrap(), work: Work::Topic(topic.parse().unwrap()) }
}

fn place(tenant: &str) -> Place {
    topic(tenant, "topic")
}

/// A round in which so many jobs fit: whose jobs went out, in their order.
fn round(line: &Line, mut room: usize) -> Vec<String> {
    let mut out = Vec::new();
    line.begin();
    while let Some((place, wanted)) = line.next() {
        let jobs = wanted.jobs().min(TURN_MAX).min(room);
        room -= jobs;
        out.extend(std::iter::repeat_n(place.tenant.to_string(), jobs));
        line.end_turn(&place, Served { jobs, left: wanted.after(jobs) });
    }
    out
}

#[test]
fn a_tenant_that_asks_again_keeps_its_place_and_goes_to_the_end_after_its_turn() {
    let line = Line::default();
    line.ask(place("greedy"), Wanted::Jobs(5));
    line.ask(place("modest"), Wanted::Jobs(1));
    line.ask(place("greedy"), Wanted::Jobs(1));
    assert_eq!(round(&line, 100), ["greedy", "greedy", "greedy", "modest", "greedy", "greedy", "greedy"]);
    assert_eq!(line.next(), None);
}

#[test]
fn each_room_that_comes_free_goes_to_the_next_tenant_and_not_to_the_one_that_floods() {
    let line = Line::default();
    line.ask(place("greedy"), Wanted::Jobs(10_000));
    assert_eq!(round(&line, 4), ["greedy"; 4]);
    line.ask(place("modest"), Wanted::Jobs(1));
    line.ask(place("patient"), Wanted::Jobs(2));
    // Full: nobody loses its place by trying.
    for _ in 0..3 {
        assert_eq!(round(&line, 0), [""; 0]);
    }
    let started: Vec<_> = (0..5).flat_map(|_| round(&line, 1)).collect();
    assert_eq!(started, ["greedy", "modest", "patient", "greedy", "patient"]);
}

#[test]
fn a_flood_over_many_topics_is_one_tenants_turn() {
    let line = Line::default();
    for number in 0..50 {
        line.ask(topic("greedy", &format!("topic-{number}")), Wanted::Jobs(100));
    }
    let (flood, wanted) = line.next().unwrap();
    // It comes while the other has its turn.
    line.ask(place("modest"), Wanted::Jobs(1));
    line.end_turn(&flood, Served { jobs: 3, left: wanted.after(3) });
    let (first, _) = line.next().unwrap();
    assert_eq!(first, place("modest"));
}

#[test]
fn topics_of_one_tenant_take_turns_and_one_that_is_done_does_not_cost_the_turn() {
    let line = Line::default();
    line.ask(topic("acme", "empty"), Wanted::Jobs(1));
    line.ask(topic("acme", "full"), Wanted::Jobs(1));
    line.ask(topic("acme", "ready"), Wanted::Jobs(1));
    line.begin();
    let mut tried = Vec::new();
    while let Some((place, wanted)) = line.next() {
        let Work::Topic(topic) = &place.work else { panic!("it has a topic") };
        tried.push(topic.to_string());
        let served = match topic.as_str() {
            "empty" => Served { jobs: 0, left: None },
            "full" => Served { jobs: 0, left: Some(wanted) },
            _ => Served { jobs: 1, left: None },
        };
        line.end_turn(&place, served);
    }
    assert_eq!(tried, ["empty", "full", "ready", "full"]);
}

#[test]
fn what_is_asked_for_during_a_turn_is_not_lost_with_it() {
    let line = Line::default();
    line.ask(place("acme"), Wanted::Jobs(1));
    let (turn, _) = line.next().unwrap();
    line.ask(place("acme"), Wanted::Jobs(2));
    line.end_turn(&turn, Served { jobs: 1, left: None });
    assert_eq!(line.next(), Some((place("acme"), Wanted::Jobs(2))));
}

#[test]
fn an_uncounted_place_is_asked_for_more_each_time() {
    assert_eq!(Wanted::AtLeast(1).after(1), Some(Wanted::AtLeast(2)));
    assert_eq!(Wanted::Jobs(3).after(2), Some(Wanted::Jobs(1)));
    assert_eq!(Wanted::Jobs(3).after(3), None);
}
