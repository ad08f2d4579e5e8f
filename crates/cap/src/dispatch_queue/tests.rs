use super::*;

fn topic(tenant: &str, topic: &str) -> QueueEntry {
    QueueEntry { tenant: tenant.parse().unwrap(), topic: Some(topic.parse().unwrap()) }
}

fn entry(tenant: &str) -> QueueEntry {
    topic(tenant, "topic")
}

/// A round with room for this many jobs: the tenants of the pushed jobs, in order.
fn round(queue: &DispatchQueue, mut room: usize) -> Vec<String> {
    let mut out = Vec::new();
    queue.begin_round();
    while let Some((entry, demand)) = queue.next() {
        let jobs = demand.jobs().min(QUANTUM).min(room);
        room -= jobs;
        out.extend(std::iter::repeat_n(entry.tenant.to_string(), jobs));
        queue.finish(&entry, Served { jobs, left: demand.after(jobs) });
    }
    out
}

#[test]
fn a_tenant_keeps_its_place_until_it_gets_jobs_and_then_goes_to_the_end() {
    let queue = DispatchQueue::default();
    queue.request(entry("greedy"), Demand::Jobs(5));
    queue.request(entry("modest"), Demand::Jobs(1));
    queue.request(entry("greedy"), Demand::Jobs(1));
    assert_eq!(round(&queue, 100), ["greedy", "greedy", "greedy", "modest", "greedy", "greedy", "greedy"]);
    assert_eq!(queue.next(), None);
}

#[test]
fn free_room_goes_to_the_next_tenant_and_not_to_the_one_that_floods() {
    let queue = DispatchQueue::default();
    queue.request(entry("greedy"), Demand::Jobs(10_000));
    assert_eq!(round(&queue, 4), ["greedy"; 4]);
    queue.request(entry("modest"), Demand::Jobs(1));
    queue.request(entry("patient"), Demand::Jobs(2));
    // Without room, a try costs no tenant its place.
    for _ in 0..3 {
        assert_eq!(round(&queue, 0), [""; 0]);
    }
    let started: Vec<_> = (0..5).flat_map(|_| round(&queue, 1)).collect();
    assert_eq!(started, ["greedy", "modest", "patient", "greedy", "patient"]);
}

#[test]
fn a_flood_over_many_topics_gets_one_quantum() {
    let queue = DispatchQueue::default();
    for number in 0..50 {
        queue.request(topic("greedy", &format!("topic-{number}")), Demand::Jobs(100));
    }
    let (flood, demand) = queue.next().unwrap();
    // It is added while the other is served.
    queue.request(entry("modest"), Demand::Jobs(1));
    queue.finish(&flood, Served { jobs: 3, left: demand.after(3) });
    let (first, _) = queue.next().unwrap();
    assert_eq!(first, entry("modest"));
}

#[test]
fn topics_of_one_tenant_alternate_and_an_empty_one_costs_nothing() {
    let queue = DispatchQueue::default();
    queue.request(topic("acme", "empty"), Demand::Jobs(1));
    queue.request(topic("acme", "full"), Demand::Jobs(1));
    queue.request(topic("acme", "ready"), Demand::Jobs(1));
    queue.begin_round();
    let mut tried = Vec::new();
    while let Some((entry, demand)) = queue.next() {
        let topic = entry.topic.clone().unwrap();
        tried.push(topic.to_string());
        let served = match topic.as_str() {
            "empty" => Served { jobs: 0, left: None },
            "full" => Served { jobs: 0, left: Some(demand) },
            _ => Served { jobs: 1, left: None },
        };
        queue.finish(&entry, served);
    }
    assert_eq!(tried, ["empty", "full", "ready", "full"]);
}

#[test]
fn a_demand_that_is_added_while_its_entry_is_served_is_kept() {
    let queue = DispatchQueue::default();
    queue.request(entry("acme"), Demand::Jobs(1));
    let (served, _) = queue.next().unwrap();
    queue.request(entry("acme"), Demand::Jobs(2));
    queue.finish(&served, Served { jobs: 1, left: None });
    assert_eq!(queue.next(), Some((entry("acme"), Demand::Jobs(2))));
}

#[test]
fn an_uncounted_demand_doubles_each_time() {
    assert_eq!(Demand::AtLeast(1).after(1), Some(Demand::AtLeast(2)));
    assert_eq!(Demand::Jobs(3).after(2), Some(Demand::Jobs(1)));
    assert_eq!(Demand::Jobs(3).after(3), None);
}
