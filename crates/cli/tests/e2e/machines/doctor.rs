//! `interlock doctor` on Redis and NATS: faults in the store are found and repaired; faults of the servers are found, and
//! the report lists what could not be checked.

use async_nats::jetstream;
use interlock_cap::streams::{RESULTS_CONSUMER, SYSTEM_STREAM};
use interlock_poll::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Machines, replica};
use crate::doctor::{doctor, names};
use crate::server::Caller;

/// No loop repairs the faults before the doctor finds them.
const SELDOM: [&str; 2] = ["--reconcile-ms", "600000"];

/// The invariant that a fault breaks, the commands that plant it, and its subject. `RUN` is a new run, whose job waits at
/// `PLACE`.
const FAULTS: [(&str, &[&str], &str); 28] = [
    ("slot_without_run", &["SADD wf:runs:active:{acme} MISSING"], "MISSING"),
    ("run_without_slot", &["SREM wf:runs:active:{acme} RUN"], "RUN"),
    (
        "key_without_run",
        &[r#"SET wf:run:idempotency:{acme}:work:order-7 {"run":"MISSING","fingerprint":"f"}"#],
        "work/order-7",
    ),
    (
        "reservation_left_behind",
        &[concat!(
            r#"SET wf:run:idempotency:{acme}:work:order-8 {"run":"MISSING","fingerprint":"f","#,
            r#""reservation":{"fence":7,"until":AGO}}"#
        )],
        "work/order-8",
    ),
    ("lease_without_job", &["ZADD wf:leases:{acme} HENCE DONE:work@1"], "DONE:work@1"),
    ("lease_not_indexed", &["ZREM wf:leases:{acme} LEASED:work@1"], "LEASED:work@1"),
    ("job_in_no_index", &["ZREM wf:queue:{acme}:build PLACE"], "RUN:work@1"),
    ("queue_entry_without_job", &["ZADD wf:queue:{acme}:build 0 ENDED_PLACE"], "DONE:work@1"),
    ("job_not_listed", &["ZREM wf:jobs:{acme} PLACE"], "RUN:work@1"),
    (
        "job_of_ended_run",
        &["HDEL wf:job:{acme}:DONE:work@1 end_cause", "ZADD wf:queue:{acme}:build 0 ENDED_PLACE"],
        "DONE:work@1",
    ),
    (
        "step_without_job",
        &[
            "ZREM wf:queue:{acme}:build PLACE",
            "ZREM wf:jobs:{acme} PLACE",
            "SREM wf:run:jobs:{acme}:RUN RUN:work@1",
            "DEL wf:job:{acme}:RUN:work@1",
        ],
        "RUN:work@1",
    ),
    ("timer_missing", &["ZREM wf:timers:{acme} PAUSED"], "PAUSED"),
    (
        "timer_overdue",
        &["ZADD wf:timers:{acme} AGO PAUSED", "HSET wf:run:{acme}:PAUSED due_at AGO"],
        "PAUSED",
    ),
    ("timer_without_run", &["ZADD wf:timers:{acme} HENCE MISSING"], "MISSING"),
    ("inbox_not_drained", &[r#"RPUSH wf:inbox:{acme}:RUN {"cancel":{"by":"ada"}}"#], "RUN"),
    ("ready_without_run", &["ZADD wf:ready:{acme} 0 MISSING"], "MISSING"),
    (
        "run_hold_without_holder",
        &[r#"SET cordum:wf:run:lock:RUN {"owner":"x","token":"t","fence":7,"expires_at":AGO}"#],
        "RUN",
    ),
    ("run_quarantined", &["HSET wf:run:{acme}:RUN quarantined_at AGO tries 5 lease 0"], "RUN"),
    (
        "approval_of_ended_run",
        &[
            r#"HSET wf:approval:{acme}:DONE:ask@1 approval {} state "open" verdict open"#,
            "ZADD wf:approvals:open:{acme} 0 DONE:ask@1",
        ],
        "DONE:ask@1",
    ),
    ("approval_not_listed", &["ZREM wf:approvals:open:{acme} ASKING:ask@1"], "ASKING:ask@1"),
    (
        "kept_result_not_due",
        &[
            r#"HSET wf:job:{acme}:LEASED:work@1 put_off ,"job":"LEASED:work@1","outcome":{"completed":{"output":{}}}}}"#,
            "HSET wf:job:{acme}:LEASED:work@1 put_off_cause completed put_off_deliveries 1 put_off_since AGO",
        ],
        "LEASED:work@1",
    ),
    ("lock_not_listed", &["DEL wf:locks:listed:{acme}"], "db"),
    ("lock_tally_drift", &["HSET wf:locks:waiting:{acme} _ 7"], "acme"),
    (
        "lock_debt",
        &[
            concat!(
                "EVAL return(redis.call('HSET',KEYS[1],'h:TOKEN',(string.gsub(redis.call('HGET',KEYS[1],'h:TOKEN'),",
                r#"'"expires_at":%d+','"expires_at":AGO')))) 1 wf:lock:{acme}:db"#
            ),
            "ZADD wf:lock:ends:{acme}:db AGO TOKEN",
        ],
        "db",
    ),
    (
        "budget_drift",
        &[concat!(
            "EVAL (function(r)r.reserved=9;return(redis.call('HSET',KEYS[1],ARGV[1],cmsgpack.pack(r)))end)",
            "(cmsgpack.unpack(redis.call('HGET',KEYS[1],ARGV[1]))) 1 wf:budget:ledgers:{acme}:llm total/:"
        )],
        "llm",
    ),
    ("permit_not_due", &["ZREM wf:budget:due:{acme}:llm p.PERMIT"], "llm/PERMIT"),
    (
        "permit_without_job",
        &[
            "ZREM wf:budget:due:{acme}:llm p.JOBS",
            concat!(
                "EVAL (function(r)r.expires_at=nil;r.job='DONE:work@1';",
                "return(redis.call('HSET',KEYS[1],ARGV[1],cmsgpack.pack(r)))end)",
                "(cmsgpack.unpack(redis.call('HGET',KEYS[1],ARGV[1]))) 1 wf:budget:permits:{acme}:llm JOBS"
            ),
        ],
        "llm/JOBS",
    ),
    ("permit_without_budget", &["HDEL wf:budgets:{acme} llm"], "llm"),
];

/// A store with rows of every kind, and a gateway alone, so that no other role repairs a fault before it is found.
struct Patient {
    machines: Machines,
    caller: Caller,
    /// The values of the names in commands and subjects.
    names: Vec<(&'static str, String)>,
}

impl Patient {
    async fn open() -> Self {
        let mut machines = Machines::start_with(1, &SELDOM).await;
        let caller = machines.replicas[0].caller("acme");
        caller.limit(100).await;
        let work = json!({"type": "worker", "topic": "build"});
        caller.workflow("work", json!({ "work": work })).await;
        caller.workflow("ask", json!({"ask": {"type": "approval"}})).await;
        caller.workflow("pause", json!({"pause": {"type": "delay", "delay_sec": 3_600}})).await;
        let done = start(&caller, "work").await;
        let job = caller.claim("w-1", "build", 1).await.remove(0);
        caller.complete(&job, &json!({})).await.expect(200);
        caller.ended(&done).await;
        let leased = start(&caller, "work").await;
        assert_eq!(caller.claim("w-1", "build", 1).await[0]["job_id"], json!(format!("{leased}:work@1")));
        let (asking, paused) = (start(&caller, "ask").await, start(&caller, "pause").await);
        let lock = json!({"resource": "db", "owner": "ada", "ttl_ms": 3_600_000});
        let token = caller.post("/locks/acquire", lock).await.expect(200).text("token");
        let budget = json!({"unit": "usd", "amount": "20", "per": "total"});
        caller.try_send(Method::PUT, "/budgets/llm", None, &budget).await.unwrap().expect(200);
        let reserve = json!({"amount": "5", "ttl_ms": 3_600_000, "request_id": "r1"});
        let permit = caller.post("/budgets/llm/reserve", reserve).await.expect(200).text("permit");
        let reserve = json!({"amount": "1", "ttl_ms": 3_600_000, "request_id": "r2"});
        let of_job = caller.post("/budgets/llm/reserve", reserve).await.expect(200).text("permit");
        assert_eq!(machines.replicas.remove(0).stop(), Some(0));
        let gateway = replica(&machines.redis.url(), &machines.nats.url(), &["--roles", "gateway"]);
        let caller = gateway.caller("acme");
        machines.replicas.push(gateway);
        let now: u64 =
            machines.redis.command(&["TIME"]).await.unwrap().lines().next().unwrap().parse().unwrap();
        let missing = format!("{}beef", &paused[..paused.len() - 4]);
        let mut names = vec![
            ("MISSING", missing),
            ("DONE", done.clone()),
            ("LEASED", leased),
            ("ASKING", asking),
            ("PAUSED", paused),
            ("TOKEN", token),
            ("PERMIT", permit),
            ("JOBS", of_job),
            ("AGO", format!("{}000", now - 3_600)),
            ("HENCE", format!("{}000", now + 3_600)),
        ];
        names.insert(0, ("ENDED_PLACE", place(&machines, &done).await));
        Self { machines, caller, names }
    }

    async fn run(&self, command: &str, own: &[(&str, String)]) {
        let command = self.named(command, own);
        let words = command.split(' ').map(|word| if word == "_" { "" } else { word });
        self.machines.redis.command(&words.collect::<Vec<_>>()).await.unwrap();
    }

    fn named(&self, text: &str, own: &[(&str, String)]) -> String {
        let own = own.iter().map(|(name, value)| (*name, value));
        let all = self.names.iter().map(|(name, value)| (*name, value));
        all.chain(own).fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    fn doctor(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        doctor(&self.machines.replicas[0].base, &[&["--tenant", "acme"], arguments].concat())
    }
}

async fn start(caller: &Caller, workflow: &str) -> String {
    caller.start(workflow, None, &json!({})).await.expect(200).text("run_id")
}

/// The member of a run's job in its queue and in the list of all jobs.
async fn place(machines: &Machines, run: &str) -> String {
    let job = format!("{run}:work@1");
    let row = format!("wf:job:{{acme}}:{job}");
    let created_at = machines.redis.command(&["HGET", &row, "created_at"]).await.unwrap();
    format!("{created_at:0>15}/{job}")
}

#[tokio::test]
async fn every_fault_planted_in_redis_is_found_and_repaired() {
    let patient = Patient::open().await;
    let (exit, view) = patient.doctor(&[]);
    assert_eq!((exit, names(&view["findings"])), (Some(0), vec![]), "{view:#}");
    for (invariant, commands, subject) in FAULTS {
        let run = start(&patient.caller, "work").await;
        let own = [("PLACE", place(&patient.machines, &run).await), ("RUN", run)];
        for command in commands {
            patient.run(command, &own).await;
        }
        let subject = patient.named(subject, &own);
        let (exit, view) = patient.doctor(&[]);
        assert_eq!(
            (exit, names(&view["findings"])),
            (Some(1), vec![(invariant.to_owned(), subject)]),
            "{view:#}"
        );
        let (exit, view) = patient.doctor(&["--repair"]);
        assert_eq!((exit, &view["repaired"][0]["became"]), (Some(0), &json!("repaired")), "{view:#}");
        let (exit, view) = patient.doctor(&[]);
        assert_eq!(
            (exit, names(&view["findings"])),
            (Some(0), vec![]),
            "{invariant} after its repair: {view:#}"
        );
    }
    continues(&patient).await;
}

/// Asserts that the repaired store works with all roles.
async fn continues(patient: &Patient) {
    let server = patient.machines.replica();
    let caller = server.caller("acme");
    let run = start(&caller, "work").await;
    // The repaired jobs come before it.
    until("the run succeeds", async || {
        let claim = json!({"topics": ["build"], "max_jobs": 50, "wait_ms": 100});
        let claimed = caller.post("/workers/w-2/claim", claim).await.expect(200).body;
        for job in claimed["jobs"].as_array().unwrap() {
            // Its run may have been cancelled meanwhile.
            caller.complete(job, &json!({})).await;
        }
        caller.run(&run).await["status"] == "succeeded"
    })
    .await;
    for run in caller.get("/workflow-runs?limit=200").await.expect(200).body["items"].as_array().unwrap() {
        // The others wait for an approval and a delay.
        if run["workflow_id"] == "work" {
            caller.ended(run["id"].as_str().unwrap()).await;
        }
    }
    let (exit, view) = doctor(&server.base, &[]);
    assert_eq!((exit, names(&view["findings"])), (Some(0), vec![]), "{view:#}");
}

#[tokio::test]
async fn a_damaged_row_does_not_stop_other_repairs() {
    let patient = Patient::open().await;
    let run = start(&patient.caller, "work").await;
    let own = [("PLACE", place(&patient.machines, &run).await), ("RUN", run)];
    for command in [
        "SADD wf:runs:active:{acme} MISSING",
        "HSET wf:run:{acme}:RUN head damaged",
        "ZADD wf:ready:{acme} 0 MISSING",
        "DEL wf:locks:listed:{acme}",
    ] {
        patient.run(command, &own).await;
    }
    let damaged = patient.named("wf:run:{acme}:RUN", &own);
    let (exit, view) = patient.doctor(&["--repair"]);
    let became = |invariant: &str| {
        let repaired = view["repaired"].as_array().unwrap().iter();
        let mut named = repaired.filter(|one| one["invariant"] == invariant);
        named.next().unwrap_or_else(|| panic!("no {invariant} in {view:#}"))["became"].clone()
    };
    for invariant in ["slot_without_run", "ready_without_run", "lock_not_listed"] {
        assert_eq!(became(invariant), "repaired", "{view:#}");
    }
    assert_eq!(became("row_damaged"), "impossible");
    assert_eq!(
        (exit, names(&view["after"]["findings"])),
        (Some(1), vec![("row_damaged".to_owned(), damaged)]),
        "{view:#}"
    );
}

#[tokio::test]
async fn faults_of_the_servers_are_found_and_what_cannot_be_checked_is_listed() {
    let mut machines = Machines::start_with(1, &SELDOM).await;
    let (exit, view) = doctor(&machines.replicas[0].base, &[]);
    assert_eq!(
        (exit, names(&view["findings"])),
        (Some(0), vec![]),
        "a fresh server with no workers: {view:#}"
    );
    assert_eq!(view["unseen"], json!([]), "{view:#}");
    assert_eq!(machines.replicas.remove(0).stop(), Some(0));
    let server = replica(&machines.redis.url(), &machines.nats.url(), &["--roles", "gateway"]);

    let context = jetstream::new(async_nats::connect(machines.nats.url()).await.unwrap());
    context.delete_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    let set = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    machines.redis.command(&set).await.unwrap();
    let only = ["--only", "consumer_gone,memory_policy,stream_lag,bus_away"];
    let (exit, view) = doctor(&server.base, &only);
    let redis = format!("127.0.0.1:{}", machines.redis.port());
    let expected = [("consumer_gone", RESULTS_CONSUMER), ("memory_policy", redis.as_str())];
    let expected = expected.map(|(invariant, subject)| (invariant.to_owned(), subject.to_owned())).to_vec();
    assert_eq!((exit, names(&view["findings"])), (Some(1), expected), "{view:#}");
    let (exit, view) = doctor(&server.base, &[&only[..], &["--repair"]].concat());
    assert_eq!((exit, names(&view["after"]["findings"])), (Some(0), vec![]), "{view:#}");
    let made: Result<jetstream::consumer::PullConsumer, _> =
        context.get_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await;
    assert!(made.is_ok(), "{made:?}");

    machines.nats.kill().await.unwrap();
    let view = until("the doctor finds that NATS is unreachable", async || {
        let (exit, view) = doctor(&server.base, &only);
        if exit == Some(1) { Ok(view) } else { Err(view) }
    });
    let view = view.await;
    assert_eq!(names(&view["findings"])[0].0, "bus_away", "{view:#}");
    let unseen: Vec<_> = view["unseen"].as_array().unwrap().iter().map(|one| &one["what"]).collect();
    assert_eq!(unseen, ["consumer_gone", "stream_lag"], "{view:#}");
}

#[tokio::test]
async fn without_redis_the_doctor_lists_what_it_could_not_check() {
    let mut machines = Machines::start_with(1, &SELDOM).await;
    machines.redis.kill().await.unwrap();
    let (code, report) = doctor(&machines.replicas[0].base, &[]);
    assert_eq!((code, names(&report["findings"])), (Some(3), Vec::new()), "{report:#}");
    let unseen = report["unseen"].to_string();
    for what in ["the rows of the tenants", "loop_not_ticking", "memory_policy", "clock_skew"] {
        assert!(unseen.contains(what), "{report:#}");
    }
}
