//! The course of the drill: who is told what and when, and what is seen of it.

use std::io;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error};
use interlock_api::runs::RunView;
use interlock_model::run::RunStatus;
use interlock_model::time::millis;
use serde_json::json;

use super::clean::Traces;
use super::ledger::Ledger;
use super::plan::{Plan, What, Who};
use super::process::Process;
use super::talk::{Brief, Deed, Holding, Order, Role, Word};
use super::verdict::{Answer, Seen};
use super::{Progress, Setting};

/// The one step of the workflow.
const STEP: &str = "work";

/// After this the run ends by itself, should nobody remove it.
const RUN_LIMIT: Duration = Duration::from_mins(5);

/// How often the holder may be met inside the ledger.
const PAUSES_MAX: u32 = 20;

const LOOK: Duration = Duration::from_millis(50);

/// What kept the drill from coming to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{0}")]
    Api(#[from] Error),
    #[error("could not {action}: {source}")]
    Local { action: &'static str, source: io::Error },
    #[error("the {0} ended before its time")]
    Ended(Role),
    #[error("the {role} did not get the {holding}: {words}")]
    NotTaken { role: Role, holding: Holding, words: String },
    #[error("the contender got the {0} while the holder held it")]
    TakenEarly(Holding),
    #[error("the holder was inside the ledger each time it was paused")]
    NeverOutside,
    #[error("it did not come to its end within {} s", .0.as_secs())]
    TooLong(Duration),
    #[error("it was interrupted")]
    Interrupted,
}

fn local(action: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |source| Trouble::Local { action, source }
}

type Result<T> = std::result::Result<T, Trouble>;

pub(super) struct Conduct<'a> {
    plan: &'a Plan,
    setting: &'a Setting,
    client: &'a Client,
    traces: &'a mut Traces,
    ledger: Ledger,
    holder: Option<Process>,
    contender: Option<Process>,
    seen: Vec<Seen>,
    backend: Option<String>,
    paused_at: Option<Instant>,
    paused: Option<Duration>,
}

impl<'a> Conduct<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        setting: &'a Setting,
        client: &'a Client,
        traces: &'a mut Traces,
    ) -> Self {
        Self {
            plan,
            setting,
            client,
            traces,
            ledger: Ledger::new(setting.folder.join("ledger.json"), plan.guarded),
            holder: None,
            contender: None,
            seen: Vec::new(),
            backend: None,
            paused_at: None,
            paused: None,
        }
    }

    pub(super) async fn run(&mut self, progress: &dyn Fn(Progress)) -> Result<()> {
        progress(Progress::Preparing);
        self.prepare().await?;
        progress(Progress::Holding);
        self.holder = Some(self.start(Role::Holder, Order::Take).await?);
        self.rounds(Role::Holder, 1).await?;
        progress(Progress::Trying);
        self.try_early().await?;
        self.pause().await?;
        progress(Progress::Paused);
        order(&mut self.contender, Order::Take).await?;
        self.rounds(Role::Contender, 1).await?;
        self.resume().await?;
        progress(Progress::Resumed);
        self.done(Role::Holder).await?;
        progress(Progress::Finishing);
        order(&mut self.contender, Order::Finish).await?;
        self.done(Role::Contender).await?;
        self.look_back().await
    }

    /// Kills what is alive, and tells what was seen, on what backend, and how long the holder was paused.
    pub(super) async fn end(self) -> (Vec<Seen>, Option<String>, Option<Duration>) {
        for process in [self.holder, self.contender].into_iter().flatten() {
            process.kill().await;
        }
        (self.seen, self.backend, self.paused)
    }

    async fn prepare(&mut self) -> Result<()> {
        self.backend = Some(self.client.status().await?.backend.kind);
        let name = &self.plan.name;
        let document = json!({
            "id": name,
            "name": "interlock drill",
            "timeout_sec": (RUN_LIMIT + self.plan.ttl).as_secs(),
            "steps": {STEP: {"type": "worker", "topic": name}},
        });
        // Written down before it is asked for: an answer may be lost, or waited for in vain.
        self.traces.workflow = Some(name.clone());
        self.client.create_workflow_as_written(&document).await?;
        self.traces.run = Some(self.client.start_run(name, &json!({}), Some(name)).await?.run_id);
        Ok(())
    }

    async fn start(&self, role: Role, first: Order) -> Result<Process> {
        let name = &self.plan.name;
        let connection = &self.setting.connection;
        let brief = Brief {
            role,
            gateway: connection.gateway.clone(),
            api_key: connection.api_key.clone(),
            tenant: connection.tenant.clone(),
            worker: format!("{name}-{role}").parse().expect("letters make a worker's name"),
            topic: name.parse().expect("letters make a topic"),
            resource: name.parse().expect("letters make a resource"),
            ttl_ms: millis(self.plan.ttl),
            ledger: self.setting.folder.join("ledger.json"),
            guarded: self.plan.guarded,
        };
        let mut process =
            Process::start(&self.setting.party, &brief).await.map_err(local("start a process"))?;
        process.order(first).await.map_err(local("speak to a process"))?;
        Ok(process)
    }

    /// The contender asks for both, while the holder shows before and after that it has them.
    async fn try_early(&mut self) -> Result<()> {
        self.contender = Some(self.start(Role::Contender, Order::Try).await?);
        let mut tries = 0;
        while tries < 2 {
            let (role, word) = self.hear().await?;
            tries += u32::from(role == Role::Contender && matches!(word, Word::Did(_)));
        }
        // The first that ends now may have begun before.
        self.rounds(Role::Holder, 2).await?;
        let early =
            self.seen.iter().find(|seen| seen.who == Who::ContenderEarly && seen.answer == Answer::Accepted);
        early.map_or(Ok(()), |seen| Err(Trouble::TakenEarly(holding(seen.what))))
    }

    /// Stops the holder anywhere but inside the ledger, where it would keep the contender out with a lock of the kernel.
    async fn pause(&mut self) -> Result<()> {
        for _ in 0..PAUSES_MAX {
            self.paused_at = Some(Instant::now());
            let holder = self.holder.as_ref().ok_or(Trouble::Ended(Role::Holder))?;
            holder.pause().await.map_err(local("pause the holder"))?;
            if self.ledger.is_free().map_err(local("look at the ledger"))? {
                return Ok(());
            }
            holder.resume().map_err(local("resume the holder"))?;
            self.paused_at = None;
            self.rounds(Role::Holder, 1).await?;
        }
        Err(Trouble::NeverOutside)
    }

    /// What the holder's work has waited for comes while it is paused. It goes on, and knows of nothing.
    async fn resume(&mut self) -> Result<()> {
        order(&mut self.holder, Order::Finish).await?;
        if let Some(paused_at) = self.paused_at {
            // The lease was a little old when the pause began, so it may have run out before its whole time was over.
            tokio::time::sleep_until((paused_at + self.plan.ttl).into()).await;
        }
        let holder = self.holder.as_ref().ok_or(Trouble::Ended(Role::Holder))?;
        holder.resume().map_err(local("resume the holder"))?;
        self.paused = self.paused_at.map(|at| at.elapsed());
        Ok(())
    }

    /// Waits until `role` has gone so many more times through all that it writes.
    async fn rounds(&mut self, role: Role, count: u32) -> Result<()> {
        let (mut lock, mut job) = (0, 0);
        while lock < count || job < count {
            match self.hear().await? {
                (speaker, Word::Round(Holding::Lock)) if speaker == role => lock += 1,
                (speaker, Word::Round(Holding::Job)) if speaker == role => job += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until `role` has written its last, and lets it end.
    async fn done(&mut self, role: Role) -> Result<()> {
        let mut open = 2;
        while open > 0 {
            let (speaker, word) = self.hear().await?;
            open -= u32::from(speaker == role && matches!(word, Word::Done(_)));
        }
        let process = match role {
            Role::Holder => self.holder.take(),
            Role::Contender => self.contender.take(),
        };
        if let Some(process) = process {
            process.kill().await;
        }
        Ok(())
    }

    /// The next word of either, written down.
    async fn hear(&mut self) -> Result<(Role, Word)> {
        let (role, word) = tokio::select! {
            word = word_of(&mut self.holder) => word?,
            word = word_of(&mut self.contender) => word?,
        };
        if let Word::Did(deed) = &word {
            self.write_down(role, deed)?;
        }
        Ok((role, word))
    }

    fn write_down(&mut self, role: Role, deed: &Deed) -> Result<()> {
        if let (What::LockAcquire, Some(token)) = (deed.what, &deed.token) {
            let resource = self.plan.name.parse().expect("letters make a resource");
            self.traces.locks.push((resource, token.clone()));
        }
        if let Some(who) = self.who(role, deed.order) {
            self.seen.push(Seen {
                who,
                what: deed.what,
                fence: deed.fence,
                answer: deed.answer,
                words: deed.words.clone(),
                lease_age: Duration::from_millis(deed.lease_age_ms),
            });
        }
        let is_take = matches!(deed.what, What::LockAcquire | What::JobClaim);
        if is_take && deed.order == Order::Take && deed.answer != Answer::Accepted {
            let holding = holding(deed.what);
            return Err(Trouble::NotTaken { role, holding, words: deed.words.clone() });
        }
        Ok(())
    }

    /// Whose write it was, if that can be told: what a pause has met on its way may have arrived before it or after.
    fn who(&self, role: Role, order: Order) -> Option<Who> {
        match (role, order) {
            (Role::Holder, Order::Finish) => Some(Who::HolderLate),
            (Role::Holder, Order::Try | Order::Take) => self.paused_at.is_none().then_some(Who::HolderLive),
            (Role::Contender, Order::Try) => Some(Who::ContenderEarly),
            (Role::Contender, Order::Take | Order::Finish) => Some(Who::Contender),
        }
    }

    /// Whether the contender's work is what counts.
    async fn look_back(&mut self) -> Result<()> {
        if let Some(run) = self.traces.run {
            let mut view = self.client.run(&run.to_string()).await?;
            while !view.status.is_final() {
                tokio::time::sleep(LOOK).await;
                view = self.client.run(&run.to_string()).await?;
            }
            let (answer, words) = run_output(&view);
            self.look(What::RunOutput, answer, words);
        }
        let entries = self.ledger.entries().map_err(local("read the ledger"))?;
        let falls = entries.iter().zip(entries.iter().skip(1)).find(|(one, next)| next.fence < one.fence);
        let (answer, words) = match falls {
            None => (Answer::Kept, "in order".to_owned()),
            Some((one, next)) => (Answer::Spoilt, format!("{} after {}", next.by, one.by)),
        };
        self.look(What::LedgerOrder, answer, words);
        Ok(())
    }

    fn look(&mut self, what: What, answer: Answer, words: String) {
        let (who, lease_age) = (Who::Afterwards, Duration::ZERO);
        self.seen.push(Seen { who, what, fence: None, answer, words, lease_age });
    }
}

/// What is taken by it.
fn holding(what: What) -> Holding {
    if what == What::JobClaim { Holding::Job } else { Holding::Lock }
}

async fn word_of(process: &mut Option<Process>) -> Result<(Role, Word)> {
    let Some(process) = process else { return std::future::pending().await };
    let word = process.word().await.map_err(local("hear a process"))?;
    word.map(|word| (process.role(), word)).ok_or(Trouble::Ended(process.role()))
}

async fn order(process: &mut Option<Process>, order: Order) -> Result<()> {
    match process {
        Some(process) => process.order(order).await.map_err(local("speak to a process")),
        None => Ok(()),
    }
}

fn run_output(run: &RunView) -> (Answer, String) {
    let by = run.output.as_ref().and_then(|output| output[STEP]["by"].as_str());
    let is_kept = run.status == RunStatus::Succeeded && by == Some(&Role::Contender.to_string());
    let words = match by {
        Some(by) => format!("{}, by the {by}", run.status.name()),
        None => run.status.name().to_owned(),
    };
    (if is_kept { Answer::Kept } else { Answer::Spoilt }, words)
}
