//! What a person with a Redis client could do to the keys.

mod limits;

use std::time::Duration;

use interlock_backend::conformance::inspection::{Fixture, Planted};
use interlock_backend::inspection::DEAD_LETTERS_REPORTED_FROM;
use interlock_backend_redis::connect::Connection;
use interlock_model::JobId;
use interlock_model::doctor::Invariant;

const AN_HOUR: Duration = Duration::from_hours(1);

/// The keys of one tenant.
pub(super) struct Soil {
    pub(super) connection: Connection,
    pub(super) tag: String,
}

impl Soil {
    fn key(&self, name: &str) -> String {
        format!("{}{name}:{}", self.connection.key_prefix(), self.tag)
    }

    fn row(&self, name: &str, id: &str) -> String {
        format!("{}:{id}", self.key(name))
    }

    /// One command: its words stand apart by spaces, and what may have spaces in it comes last.
    async fn run(&self, words: &str, last: &str) -> String {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command has a name"));
        for word in words {
            command.arg(word);
        }
        if !last.is_empty() {
            command.arg(last);
        }
        let answer = self.connection.send(&command, true).await.expect("the server is up");
        redis::from_redis_value(answer).unwrap_or_default()
    }

    async fn edit(&self, key: &str, field: &str, edit: impl FnOnce(String) -> String) {
        let text = self.run(&format!("HGET {key} {field}"), "").await;
        self.run(&format!("HSET {key} {field}"), &edit(text)).await;
    }

    /// Where a job stands in its queue and in the list of all.
    async fn place(&self, job: &JobId) -> String {
        let row = self.row("wf:job", &job.to_string());
        let created_at = self.run(&format!("HGET {row} created_at"), "").await;
        format!("{created_at:0>15}/{job}")
    }

    async fn set_timer(&self, at: u64, run: &str) {
        self.run(&format!("ZADD {} {at} {run}", self.key("wf:timers")), "").await;
    }

    pub(super) async fn plant(&self, fault: Invariant, fixture: &Fixture) -> Planted {
        let subject = match fault {
            // It is counted where it is kept.
            Invariant::SlotCountDrift | Invariant::LimitCountDrift => return Planted::CannotBe,
            Invariant::LimitSlotWithoutRun
            | Invariant::RunWithoutLimitSlot
            | Invariant::FairQueueDrift
            | Invariant::QueuedRunInNoQueue
            | Invariant::LimitQueueEntryWithoutRun
            | Invariant::DebouncedRunWithoutTimer
            | Invariant::DebounceEntryWithoutRun
            | Invariant::StartableRunWaits => self.of_limits(fault, fixture).await,
            Invariant::ChildWithoutStep | Invariant::StepWithoutChild | Invariant::ChildStartNotDue => {
                self.of_children(fault, fixture).await
            }
            Invariant::SlotWithoutRun
            | Invariant::RunWithoutSlot
            | Invariant::KeyWithoutRun
            | Invariant::ReservationLeftBehind => self.of_starts(fault, fixture).await,
            Invariant::LeaseWithoutJob
            | Invariant::LeaseNotIndexed
            | Invariant::JobInNoIndex
            | Invariant::QueueEntryWithoutJob
            | Invariant::JobNotListed
            | Invariant::JobOfEndedRun
            | Invariant::StepWithoutJob
            | Invariant::KeptResultNotDue => self.of_jobs(fault, fixture).await,
            Invariant::LockDebt | Invariant::LockTallyDrift | Invariant::LockNotListed => {
                self.of_locks(fault, fixture).await
            }
            Invariant::EventWaiterNotIndexed | Invariant::EventWaiterWithoutStep => {
                self.of_events(fault, fixture).await
            }
            Invariant::BudgetDrift
            | Invariant::PermitNotDue
            | Invariant::PermitWithoutJob
            | Invariant::PermitWithoutBudget => self.of_budgets(fault, fixture).await,
            Invariant::ApprovalOfEndedRun
            | Invariant::ApprovalNotListed
            | Invariant::RowDamaged
            | Invariant::DeadLettersGrowing => self.of_others(fault, fixture).await,
            other => self.of_turns(other, fixture).await,
        };
        Planted::In(subject)
    }

    async fn of_events(&self, fault: Invariant, fixture: &Fixture) -> String {
        let waiting = self.key("wf:events:waiting");
        if fault == Invariant::EventWaiterWithoutStep {
            let entry = Fixture::entry(fixture.missing);
            self.run(&format!("ZADD {waiting} 0 {entry}"), "").await;
            return entry;
        }
        self.run(&format!("ZREM {waiting} {}", Fixture::entry(fixture.awaiting)), "").await;
        format!("{}/wait", fixture.awaiting)
    }

    async fn of_starts(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (delayed, missing) = (fixture.delayed.to_string(), fixture.missing.to_string());
        let active = self.key("wf:runs:active");
        match fault {
            Invariant::SlotWithoutRun => {
                self.run(&format!("SADD {active} {missing}"), "").await;
                missing
            }
            Invariant::RunWithoutSlot => {
                self.run(&format!("SREM {active} {delayed}"), "").await;
                delayed
            }
            Invariant::KeyWithoutRun => {
                let name = self.row("wf:run:idempotency", &format!("{}:{}", fixture.workflow, fixture.key));
                let record = self.run(&format!("GET {name}"), "").await;
                let record = record.replace(&fixture.ended.run.to_string(), &missing);
                self.run(&format!("SET {name}"), &record).await;
                format!("{}/{}", fixture.workflow, fixture.key)
            }
            _ => {
                let name =
                    self.row("wf:run:idempotency", &format!("{}:{}", fixture.workflow, fixture.reserved));
                let record = self.run(&format!("GET {name}"), "").await;
                let (front, _) = record.split_once("\"until\":").expect("it is reserved");
                let until = (fixture.now - AN_HOUR).as_millis();
                self.run(&format!("SET {name}"), &format!("{front}\"until\":{until}}}}}")).await;
                format!("{}/{}", fixture.workflow, fixture.reserved)
            }
        }
    }

    /// The last member of a sorted set.
    async fn last_of(&self, name: &str) -> String {
        let mut command = redis::cmd("ZRANGE");
        command.arg(name).arg(-1).arg(-1);
        let answer = self.connection.send(&command, true).await.expect("the server is up");
        let members: Vec<String> = redis::from_redis_value(answer).expect("they are texts");
        members.into_iter().next().expect("it has members")
    }

    async fn of_jobs(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (queued, ended) = (fixture.queued.to_string(), fixture.ended.to_string());
        let (queue, jobs) = (self.row("wf:queue", "queued"), self.key("wf:jobs"));
        let queued_at = self.place(&fixture.queued).await;
        let enqueue =
            format!("ZADD {} 0 {}", self.row("wf:queue", "ended"), self.place(&fixture.ended).await);
        let ended_job = self.row("wf:job", &ended);
        match fault {
            Invariant::LeaseWithoutJob => {
                let ends_at = (fixture.now + AN_HOUR).as_millis();
                let lease = format!(
                    "fence 7 worker worker-1 ttl 1 expires_at {ends_at} claimed_at 1 request request-1"
                );
                self.run(&format!("HSET {ended_job} {lease}"), "").await;
                self.run(&format!("ZADD {} {ends_at} {ended}", self.key("wf:leases")), "").await;
                ended
            }
            Invariant::LeaseNotIndexed => {
                self.run(&format!("ZREM {} {}", self.key("wf:leases"), fixture.leased), "").await;
                fixture.leased.to_string()
            }
            Invariant::JobInNoIndex => {
                self.run(&format!("ZREM {queue} {queued_at}"), "").await;
                queued
            }
            Invariant::QueueEntryWithoutJob => {
                self.run(&enqueue, "").await;
                ended
            }
            Invariant::JobNotListed => {
                self.run(&format!("ZREM {jobs} {queued_at}"), "").await;
                queued
            }
            Invariant::JobOfEndedRun => {
                let end = "end_cause end_at end_held end_fence end_worker";
                self.run(&format!("HDEL {ended_job} {end}"), "").await;
                self.run(&enqueue, "").await;
                ended
            }
            Invariant::StepWithoutJob => {
                self.run(&format!("ZREM {queue} {queued_at}"), "").await;
                self.run(&format!("ZREM {jobs} {queued_at}"), "").await;
                let of_run = self.row("wf:run:jobs", &fixture.queued.run.to_string());
                self.run(&format!("SREM {of_run} {queued}"), "").await;
                self.run(&format!("DEL {}", self.row("wf:job", &queued)), "").await;
                queued
            }
            _ => {
                self.run(&format!("ZREM {} {}", self.key("wf:put_off"), fixture.kept), "").await;
                fixture.kept.to_string()
            }
        }
    }

    async fn of_turns(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (delayed, missing) = (fixture.delayed.to_string(), fixture.missing.to_string());
        let (ready, an_hour_ago) = (self.key("wf:ready"), (fixture.now - AN_HOUR).as_millis());
        match fault {
            Invariant::TimerOverdue => {
                self.set_timer(an_hour_ago, &delayed).await;
                self.run(&format!("HSET {} due_at {an_hour_ago}", self.row("wf:run", &delayed)), "").await;
                delayed
            }
            Invariant::TimerMissing => {
                self.run(&format!("ZREM {} {delayed}", self.key("wf:timers")), "").await;
                delayed
            }
            Invariant::TimerWithoutRun => {
                self.set_timer((fixture.now + AN_HOUR).as_millis(), &missing).await;
                missing
            }
            Invariant::InboxNotDrained => {
                self.run(&format!("ZREM {ready} {}", fixture.posted), "").await;
                fixture.posted.to_string()
            }
            Invariant::ReadyWithoutRun => {
                self.run(&format!("ZADD {ready} 0 {missing}"), "").await;
                missing
            }
            Invariant::RunHoldWithoutHolder => {
                let tag = if self.connection.is_cluster() { format!("{}:", self.tag) } else { String::new() };
                let name = format!("{}wf:run:lock:{tag}{}", self.connection.lock_prefix(), fixture.held);
                let lock = self.run(&format!("GET {name}"), "").await;
                let (front, _) = lock.split_once("\"expires_at\":").expect("it is held");
                self.run(&format!("SET {name}"), &format!("{front}\"expires_at\":{an_hour_ago}}}")).await;
                fixture.held.to_string()
            }
            Invariant::RunQuarantined => {
                let (run, since) = (fixture.posted.to_string(), fixture.now.as_millis());
                let fields = format!("quarantined_at {since} tries 5 lease 0");
                self.run(&format!("HSET {} {fields}", self.row("wf:run", &run)), "").await;
                self.run(&format!("ZREM {ready} {run}"), "").await;
                run
            }
            other => panic!("{other} is not about turns"),
        }
    }

    async fn of_locks(&self, fault: Invariant, fixture: &Fixture) -> String {
        let resource = fixture.lock.resource().to_string();
        let id = resource.replace('%', "%25").replace('/', "%2F");
        let lock = self.row("wf:lock", &id);
        match fault {
            Invariant::LockDebt => {
                let ended_at = (fixture.now - AN_HOUR).as_millis();
                let ends = self.row("wf:lock:ends", &id);
                // The only holder, by its name.
                let token = "call-of-ann";
                self.edit(&lock, &format!("h:{token}"), |hold| {
                    let (front, rest) = hold.split_once("\"expires_at\":").expect("a hold ends");
                    let (_, back) = rest.split_once(',').expect("a lease has more fields");
                    format!("{front}\"expires_at\":{ended_at},{back}")
                })
                .await;
                self.run(&format!("ZADD {ends} XX {ended_at} {token}"), "").await;
                resource
            }
            Invariant::LockTallyDrift => {
                self.run(&format!("HINCRBY {} ", self.key("wf:locks:waiting")), "40").await;
                fixture.tenant.to_string()
            }
            _ => {
                let since = self.run(&format!("HGET {lock} since"), "").await;
                self.run(&format!("ZREM {} {since:0>15}/{id}", self.key("wf:locks:listed")), "").await;
                resource
            }
        }
    }

    /// Rows of budgets are packed.
    async fn edit_packed(&self, table: &str, (budget, field): (&str, &str), edit: &str) {
        let script = format!(
            "local row = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])) {edit} \
             redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(row))"
        );
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(self.row(table, budget)).arg(field);
        self.connection.send(&command, true).await.expect("the server is up");
    }

    async fn of_budgets(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (budget, permit) = (fixture.budget.to_string(), fixture.permit.id.to_string());
        match fault {
            Invariant::BudgetDrift => {
                let place = fixture.permit.place();
                self.edit_packed("wf:budget:ledgers", (&budget, &place), "row.reserved = 9").await;
                budget
            }
            Invariant::PermitWithoutJob => {
                self.run(&format!("ZREM {} p.{permit}", self.row("wf:budget:due", &budget)), "").await;
                let edit = format!("row.expires_at = nil row.job = '{}'", fixture.ended);
                self.edit_packed("wf:budget:permits", (&budget, &permit), &edit).await;
                format!("{budget}/{permit}")
            }
            Invariant::PermitNotDue => {
                self.run(&format!("ZREM {} p.{permit}", self.row("wf:budget:due", &budget)), "").await;
                format!("{budget}/{permit}")
            }
            _ => {
                self.run(&format!("HDEL {} {budget}", self.key("wf:budgets")), "").await;
                budget
            }
        }
    }

    async fn of_others(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (asking, orphan) = (fixture.asking.to_string(), fixture.orphan.to_string());
        let open = self.key("wf:approvals:open");
        match fault {
            Invariant::ApprovalOfEndedRun => {
                let orphaned = self.row("wf:approval", &orphan);
                let state = "state \"open\" verdict open approval";
                let document =
                    self.run(&format!("HGET {} approval", self.row("wf:approval", &asking)), "").await;
                self.run(&format!("HSET {orphaned} {state}"), &document.replace(&asking, &orphan)).await;
                self.run(&format!("ZADD {open} 0 {orphan}"), "").await;
                let of_run = self.row("wf:run:approvals", &fixture.ended.run.to_string());
                self.run(&format!("SADD {of_run} {orphan}"), "").await;
                orphan
            }
            Invariant::ApprovalNotListed => {
                self.run(&format!("ZREM {open} {asking}"), "").await;
                asking
            }
            Invariant::RowDamaged => {
                let steps = self.row("wf:steps", &fixture.leased.run.to_string());
                self.run(&format!("HSET {steps} build"), "{\"status\": 7").await;
                format!("{steps}/build")
            }
            _ => {
                for number in 0..u32::try_from(DEAD_LETTERS_REPORTED_FROM).expect("it is small") {
                    let letter = fixture.letter(number);
                    let text = serde_json::to_string(&letter).expect("letters are plain data");
                    self.run(&format!("HSET {} {}", self.key("wf:dead_letters"), letter.job), &text).await;
                    self.run(&format!("ZADD {} 0 {}", self.key("wf:dead_letters:index"), letter.job), "")
                        .await;
                }
                fixture.tenant.to_string()
            }
        }
    }
}
