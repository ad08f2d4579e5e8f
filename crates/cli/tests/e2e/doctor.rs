//! Faults are planted one at a time into the database of a running server: the doctor finds and repairs each.

use std::path::Path;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};

use super::server::{BINARY, Caller, LIMIT, Server};

/// The report and the exit code of `interlock doctor`.
pub(crate) fn doctor(base: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } =
        Command::new(BINARY).args(["--gateway", base, "doctor", "--json"]).args(arguments).output().unwrap();
    let report = serde_json::from_slice(&stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&stderr)));
    (status.code(), report)
}

/// Invariant and subject of each finding.
pub(crate) fn names(found: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = found.as_array().unwrap().iter();
    found.map(|finding| (text(&finding["invariant"]), text(&finding["subject"]))).collect()
}

/// A tenant with rows of every kind that a gateway can make without an engine.
struct Patient {
    queued: String,
    leased: String,
    asking: String,
    delayed: String,
    ended: String,
    reported: String,
    permit: String,
}

const WORK: &str = "work";

async fn start(caller: &Caller, workflow: &str, key: Option<&str>) -> String {
    caller.start(workflow, key, &json!({})).await.expect(200).text("run_id")
}

async fn leased(caller: &Caller, topic: &str) -> Value {
    let claim = json!({"topics": [topic], "max_jobs": 1, "wait_ms": 0, "lease_ms": 3_600_000});
    let answer = caller.post("/workers/w/claim", claim).await.expect(200);
    answer.body["jobs"][0].clone()
}

/// A run that has ended, by a server with all of its roles.
async fn ended(data: &Path) -> String {
    let server = Server::start(data);
    let caller = server.caller("acme");
    for topic in ["leased", "reported", WORK] {
        caller.workflow(topic, json!({"build": {"type": "worker", "topic": topic}})).await;
    }
    caller.workflow("asking", json!({"gate": {"type": "approval"}})).await;
    caller.workflow("delayed", json!({"pause": {"type": "delay", "delay_sec": 3_600}})).await;
    let run = start(&caller, WORK, Some("the-key")).await;
    let job = leased(&caller, WORK).await;
    caller.complete(&job, &json!({})).await.expect(200);
    caller.ended(&run).await;
    assert_eq!(server.stop(), Some(0));
    run
}

impl Patient {
    async fn make(caller: &Caller, ended: String) -> Self {
        let queued = start(caller, WORK, None).await;
        let with_worker = start(caller, "leased", None).await;
        leased(caller, "leased").await;
        let reported = start(caller, "reported", None).await;
        let job = leased(caller, "reported").await;
        caller.complete(&job, &json!({})).await.expect(200);
        let asking = start(caller, "asking", None).await;
        let delayed = start(caller, "delayed", None).await;
        let lock = json!({"resource": "door", "owner": "ann", "mode": "exclusive", "ttl_ms": 3_600_000});
        caller.post("/locks/acquire", lock).await.expect(200);
        let budget = json!({"unit": "usd", "amount": "20", "per": "total"});
        caller.try_send(Method::PUT, "/budgets/llm", None, &budget).await.unwrap().expect(200);
        let reserve = json!({"amount": "5", "ttl_ms": 3_600_000, "request_id": "r1"});
        let permit = caller.post("/budgets/llm/reserve", reserve).await.expect(200).text("permit");
        let job = |run: String, step: &str| format!("{run}:{step}@1");
        Self {
            queued: job(queued, "build"),
            leased: job(with_worker, "build"),
            asking: job(asking, "gate"),
            ended: job(ended, "build"),
            delayed,
            reported,
            permit,
        }
    }

    /// The id of a recent run that does not exist.
    fn missing(&self) -> String {
        format!("{}ffff", &self.reported[..32])
    }

    /// Adds a lease on the job of the ended run, and its index entry.
    fn lease_of_ended(&self) -> String {
        let Self { leased, ended, .. } = self;
        format!(
            "INSERT INTO job_leases SELECT 'acme/{ended}', value FROM job_leases WHERE key = 'acme/{leased}';
             INSERT INTO job_expiries SELECT replace(key, '{leased}', '{ended}'), '' FROM job_expiries
                WHERE key LIKE '%{leased}'"
        )
    }

    /// Every fault. Those whose repair ends something come last of their kind.
    fn faults(&self) -> Vec<Fault> {
        [self.of_starts(), self.of_jobs(), self.of_turns(), self.of_others()].concat()
    }

    fn of_starts(&self) -> Vec<Fault> {
        let (delayed, missing) = (&self.delayed, &self.missing());
        let insert = format!("INSERT INTO active VALUES ('acme/{missing}', ''); {}", count("+ 1"));
        let delete = format!("DELETE FROM active WHERE key = 'acme/{delayed}'; {}", count("- 1"));
        let reserve = r#"INSERT INTO idempotency_keys SELECT 'acme/work/left',
            json_set(value, '$.reservation', json('{"fence": 1, "until": 1}'))
            FROM idempotency_keys WHERE key = 'acme/work/the-key'"#;
        let rename = format!(
            "UPDATE idempotency_keys SET value = json_set(value, '$.run', '{missing}')
                WHERE key = 'acme/work/the-key'"
        );
        vec![
            fault("slot_without_run", missing, &insert),
            fault("run_without_slot", delayed, &delete),
            fault("slot_count_drift", "acme", &count("+ 5")),
            fault("reservation_left_behind", "work/left", reserve),
            fault("key_without_run", "work/the-key", &rename),
        ]
    }

    fn of_jobs(&self) -> Vec<Fault> {
        let Self { queued, leased, ended, .. } = self;
        let lease = self.lease_of_ended();
        let queue = format!(
            "INSERT INTO queue SELECT replace(key, '{queued}', '{ended}'), '' FROM queue WHERE key LIKE '%{queued}'"
        );
        let reopen = format!(
            "UPDATE jobs SET value = json_remove(value, '$.end') WHERE key = 'acme/{ended}'; {lease}"
        );
        let kept = json!({
            "outcome": {"completed": {"output": {}}}, "fence": 1, "deliveries": 1, "since": 1, "not_before": 1
        });
        let remove = |table: &str, job: &str| format!("DELETE FROM {table} WHERE key LIKE '%{job}'; ");
        let remove_all = ["jobs", "queue", "job_listing"].map(|table| remove(table, queued)).concat();
        vec![
            fault("lease_without_job", ended, &lease),
            fault("lease_not_indexed", leased, &remove("job_expiries", leased)),
            fault("job_in_no_index", queued, &remove("queue", queued)),
            fault("queue_entry_without_job", ended, &queue),
            fault("job_not_listed", queued, &remove("job_listing", queued)),
            fault("job_of_ended_run", ended, &reopen),
            fault(
                "kept_result_not_due",
                leased,
                &format!("INSERT INTO put_off VALUES ('acme/{leased}', '{kept}')"),
            ),
            fault("step_without_job", queued, &remove_all),
        ]
    }

    fn of_turns(&self) -> Vec<Fault> {
        let (delayed, reported, missing) = (&self.delayed, &self.reported, &self.missing());
        let timer = format!(
            "INSERT INTO timers SELECT replace(key, '{delayed}', '{missing}'), '' FROM timers
                WHERE key LIKE '%{delayed}'"
        );
        let hold = json!({"holder": "i-gone", "fence": 1, "expires_at": 1});
        let quarantine =
            json!({"holder": "i-gone", "fence": 0, "expires_at": 1, "tries": 5, "quarantined_at": 1});
        let due = format!(
            "UPDATE timers SET key = 'acme/000000000000001/{delayed}' WHERE key LIKE '%{delayed}';
             UPDATE heads SET value = json_set(value, '$.due_at', 1) WHERE key = 'acme/{delayed}'"
        );
        vec![
            fault("timer_missing", delayed, &format!("DELETE FROM timers WHERE key LIKE '%{delayed}'")),
            fault("timer_without_run", missing, &timer),
            fault("inbox_not_drained", reported, &format!("DELETE FROM ready WHERE key = 'acme/{reported}'")),
            fault("ready_without_run", missing, &format!("INSERT INTO ready VALUES ('acme/{missing}', '')")),
            fault(
                "run_hold_without_holder",
                reported,
                &format!("INSERT INTO run_leases VALUES ('acme/{reported}', '{hold}')"),
            ),
            fault(
                "run_quarantined",
                reported,
                &format!(
                    "INSERT INTO run_leases VALUES ('acme/{reported}', '{quarantine}');
                     DELETE FROM ready WHERE key = 'acme/{reported}'"
                ),
            ),
            fault("timer_overdue", delayed, &due),
        ]
    }

    fn of_others(&self) -> Vec<Fault> {
        let (asking, orphan) = (&self.asking, &self.ended.replace(":build@", ":gate@"));
        let question = format!(
            "INSERT INTO approvals SELECT 'acme/{orphan}', json_set(value, '$.job', '{orphan}') FROM approvals
                WHERE key = 'acme/{asking}';
             INSERT INTO open_approvals VALUES ('acme/{orphan}', '')"
        );
        let unlist = format!("DELETE FROM open_approvals WHERE key = 'acme/{asking}'");
        let tally = "UPDATE lock_tallies SET value = json_set(value, '$.held', 40) WHERE key = 'acme'";
        let late =
            "UPDATE locks SET value = json_set(value, '$.holders[0].expires_at', 1) WHERE key = 'acme/door'";
        vec![
            fault("approval_of_ended_run", orphan, &question),
            fault("approval_not_listed", asking, &unlist),
            fault("lock_tally_drift", "acme", tally),
            fault("lock_not_listed", "door", "DELETE FROM lock_listing WHERE key LIKE 'acme/%'"),
            fault("lock_debt", "door", late),
            fault(
                "budget_drift",
                "llm",
                "UPDATE budget_ledgers SET value = json_set(value, '$.reserved', 9) WHERE key = 'acme/llm/total/:'",
            ),
            fault(
                "permit_not_due",
                &format!("llm/{}", self.permit),
                &format!("DELETE FROM budget_due WHERE key LIKE '%/p.{}'", self.permit),
            ),
            fault(
                "permit_without_job",
                &format!("llm/{}", self.permit),
                &format!(
                    "DELETE FROM budget_due WHERE key LIKE '%/p.{permit}'; \
                     UPDATE budget_permits SET value = json_set(json_remove(value, '$.expires_at'), '$.job', '{job}') \
                     WHERE key = 'acme/llm/{permit}'",
                    permit = self.permit,
                    job = self.ended,
                ),
            ),
            fault("permit_without_budget", "llm", "DELETE FROM budgets WHERE key = 'acme/llm'"),
        ]
    }
}

/// A broken invariant, its subject, and the statements that break it.
#[derive(Debug, Clone)]
struct Fault {
    invariant: &'static str,
    subject: String,
    statements: String,
}

fn fault(invariant: &'static str, subject: &str, statements: &str) -> Fault {
    Fault { invariant, subject: subject.to_owned(), statements: statements.to_owned() }
}

/// Changes the stored number of live runs.
fn count(by: &str) -> String {
    format!(
        "UPDATE tenants SET value = json_set(value, '$.runs_active', (value ->> '$.runs_active') {by})
            WHERE key = 'acme'"
    )
}

/// Runs statements on the file while the server has it open.
fn plant(data: &Path, statements: &str) {
    let database = rusqlite::Connection::open(data.join("interlock.db")).unwrap();
    database.busy_timeout(LIMIT).unwrap();
    database.execute_batch(statements).unwrap_or_else(|error| panic!("{statements}: {error}"));
}

#[tokio::test]
async fn every_planted_fault_is_found_and_repaired_and_a_damaged_row_stops_no_other_repair() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = ended(&data).await;
    // Without the roles that repair by themselves, a planted fault stays until the doctor looks.
    let server = Server::start_with(&data, &["--roles", "gateway"]);
    let patient = Patient::make(&server.caller("acme"), run).await;
    let (code, report) = doctor(&server.base, &["--tenant", "acme"]);
    assert_eq!((code, names(&report["findings"])), (Some(0), Vec::new()));
    let faults = patient.faults();
    assert!(faults.len() >= 20);
    for Fault { invariant, subject, statements } in faults {
        plant(&data, &statements);
        let expected = vec![(invariant.to_owned(), subject)];
        let (code, report) = doctor(&server.base, &["--tenant", "acme"]);
        assert_eq!((code, names(&report["findings"])), (Some(1), expected.clone()));
        let (code, report) = doctor(&server.base, &["--tenant", "acme", "--repair"]);
        assert_eq!((code, names(&report["repaired"])), (Some(0), expected), "{report:#}");
        assert_eq!(report["repaired"][0]["became"], "repaired", "{report:#}");
        let (code, report) = doctor(&server.base, &["--tenant", "acme"]);
        assert_eq!((code, names(&report["findings"])), (Some(0), Vec::new()));
    }
    let steps = format!("steps/acme/{}/build", &patient.leased[..36]);
    plant(&data, &format!("UPDATE steps SET value = '{{' WHERE 'steps/' || key = '{steps}'"));
    plant(&data, "INSERT INTO ready VALUES ('acme/01a1dc80-0000-7000-8000-000000000000', '')");
    let (code, report) = doctor(&server.base, &["--tenant", "acme", "--repair"]);
    assert_eq!(code, Some(1), "{report:#}");
    let became: Vec<_> =
        report["repaired"].as_array().unwrap().iter().map(|one| one["became"].clone()).collect();
    assert_eq!(became, ["repaired", "impossible"], "{report:#}");
    assert_eq!(names(&report["after"]["findings"]), [("row_damaged".to_owned(), steps)]);
}

#[tokio::test]
async fn a_fresh_server_without_workers_has_no_findings() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let (code, report) = doctor(&server.base, &[]);
    assert_eq!(code, Some(0), "{report:#}");
    assert!(report["looked_at"].as_array().unwrap().len() >= 5, "{report:#}");
    let text = Command::new(BINARY).args(["--gateway", &server.base, "doctor"]).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("no violations ("), "{text:?}");
}

#[test]
fn the_invariants_are_listed_and_explained_without_a_server() {
    let nowhere = "http://127.0.0.1:1";
    let (code, report) = doctor(nowhere, &["--list"]);
    assert_eq!(code, Some(0));
    assert!(report["items"].as_array().unwrap().len() >= 20);
    let (code, report) = doctor(nowhere, &["--explain", "lock_debt"]);
    assert_eq!((code, &report["invariant"]), (Some(0), &json!("lock_debt")));
    assert_eq!(report["plan"], "end the expired lease");
    let looked = Command::new(BINARY).args(["--gateway", nowhere, "doctor"]).output().unwrap();
    assert_eq!(looked.status.code(), Some(3), "the doctor needs a gateway");
    let wrong = Command::new(BINARY).args(["doctor", "--only", "no_such_thing"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
