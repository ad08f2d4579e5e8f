//! What a holder or a contender does: it takes a lock and a job, keeps both, writes under their fences, and ends its work
//! when it is told to.
//!
//! It does not look at its clock before it writes, and it does not stop when it is refused. A real worker does both (the
//! guards of the client see to it), and most late writes are never sent. The drill is about the others: those of a
//! process that was paused between looking and writing. Only whoever is written to can refuse them.

mod answer;
mod job;
mod lock;

use std::io::{self, BufRead};
use std::time::Duration;

use interlock_api::client::{Client, Settings};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

use super::plan::What;
use super::talk::{Brief, Deed, Holding, Order, Role, Word};
use super::verdict::Answer;
use answer::Told;
use job::Job;
use lock::Lock;

/// Leases are renewed so many times before they run out.
const ROUNDS_PER_LEASE: u32 = 4;

/// As long as a call may wait. The drill itself has less patience.
const WAIT: Duration = Duration::from_mins(1);

/// How long an answer may take, beyond what was asked to wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Lines in either direction that nobody has read yet. There are never more than a few.
const LINES_MAX: usize = 64;

/// A process of the drill, from its first line to its last.
pub async fn run(
    orders: impl BufRead + Send + 'static,
    words: impl AsyncWrite + Unpin,
) -> Result<(), Failure> {
    die_with_the_drill()?;
    let mut orders = orders.lines();
    let brief = orders.next().transpose()?.ok_or_else(|| io::Error::other("no brief came"))?;
    let brief: Brief = serde_json::from_str(&brief).map_err(io::Error::from)?;
    let client = Client::new(Settings {
        api_key: brief.api_key.clone(),
        tenant: brief.tenant.clone(),
        timeout: CALL_TIMEOUT,
        ..Settings::new(&brief.gateway)
    })?;
    let (order, heard) = broadcast::channel(LINES_MAX);
    let (say, said) = mpsc::channel(LINES_MAX);
    let lock = Party { brief: &brief, orders: heard.resubscribe(), say: say.clone() };
    let job = Party { brief: &brief, orders: heard, say };
    // A thread of its own: a read of standard input cannot be called off, and would keep the process from ending.
    std::thread::spawn(move || listen(orders, &order));
    let work = async {
        tokio::join!(lock.work(Lock::new(&client, &brief)), job.work(Job::new(&client, &brief)));
    };
    match tokio::join!(tell(said, words), work).0 {
        // The drill was killed, and nobody wants to know.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => Ok(told?),
    }
}

/// Why a process of the drill could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("could not talk to the drill: {0}")]
    Talk(#[from] io::Error),
    #[error(transparent)]
    Client(#[from] interlock_api::client::Error),
}

/// One that is paused does not see its orders end. The kernel kills it even so, when the thread that started it is gone.
/// (It also wakes it if its group has become orphaned, but in a container it may not have: its new parent may be of the
/// same session.)
#[cfg(target_os = "linux")]
fn die_with_the_drill() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn die_with_the_drill() -> io::Result<()> {
    Ok(())
}

/// Passes orders on until there are no more; then whoever waits for one hears that nobody speaks any more.
fn listen(lines: io::Lines<impl BufRead>, order: &broadcast::Sender<Order>) {
    let orders = lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok());
    // Nobody listens any more: the work has ended.
    orders.map(|heard| order.send(heard)).take_while(Result::is_ok).for_each(drop);
}

async fn tell(mut said: mpsc::Receiver<Word>, mut words: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some(word) = said.recv().await {
        let line = format!("{}\n", serde_json::to_string(&word)?);
        words.write_all(line.as_bytes()).await?;
        words.flush().await?;
    }
    Ok(())
}

/// Something that can be held, and written under.
trait Hold {
    type Write: Copy + Into<What> + 'static;

    const HOLDING: Holding;
    const TAKE: What;
    /// What is written again and again while it is held.
    const ROUND: &'static [Self::Write];

    /// What is written in the end.
    fn last(role: Role) -> &'static [Self::Write];

    async fn take(&mut self, order: Order, wait: Duration) -> Told;

    async fn write(&mut self, write: Self::Write) -> Told;

    /// When the newest lease was asked for, if there is one. It cannot have begun before.
    fn leased_at(&self) -> Option<Instant>;

    fn fence(&self) -> Option<u64>;

    fn token(&self) -> Option<interlock_model::LockToken>;
}

struct Party<'a> {
    brief: &'a Brief,
    orders: broadcast::Receiver<Order>,
    say: mpsc::Sender<Word>,
}

impl Party<'_> {
    async fn work<H: Hold>(mut self, mut hold: H) {
        if !self.take(&mut hold).await {
            return;
        }
        let pace = Duration::from_millis(self.brief.ttl_ms) / ROUNDS_PER_LEASE;
        loop {
            for &write in H::ROUND {
                let told = hold.write(write).await;
                self.report(Order::Take, write.into(), told, &hold).await;
            }
            self.tell(Word::Round(H::HOLDING)).await;
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Ok(Order::Finish) => break,
                    Ok(Order::Try | Order::Take) => {}
                    Err(_) => return,
                },
                () = tokio::time::sleep(pace) => {}
            }
        }
        for &write in H::last(self.brief.role) {
            let told = hold.write(write).await;
            self.report(Order::Finish, write.into(), told, &hold).await;
        }
        self.tell(Word::Done(H::HOLDING)).await;
    }

    /// Tries as often as it is told to, until it is told to wait. Whether it has it in the end.
    async fn take<H: Hold>(&mut self, hold: &mut H) -> bool {
        while let Ok(order) = self.orders.recv().await {
            let wait = match order {
                Order::Try => Duration::ZERO,
                Order::Take => WAIT,
                Order::Finish => return false,
            };
            let told = tokio::select! {
                told = hold.take(order, wait) => told,
                // The drill is over, one way or the other.
                _ = self.orders.recv() => return false,
            };
            let is_taken = told.answer == Answer::Accepted;
            self.report(order, H::TAKE, told, hold).await;
            if order == Order::Take {
                return is_taken;
            }
        }
        false
    }

    async fn report(&self, order: Order, what: What, told: Told, hold: &impl Hold) {
        let lease_age = hold.leased_at().map(|at| at.elapsed()).unwrap_or_default();
        self.tell(Word::Did(Deed {
            order,
            what,
            fence: hold.fence(),
            answer: told.answer,
            words: told.words,
            lease_age_ms: interlock_model::time::millis(lease_age),
            token: hold.token(),
        }))
        .await;
    }

    /// If nobody reads it any more, the orders have ended, too.
    async fn tell(&self, word: Word) {
        let _heard = self.say.send(word).await;
    }
}
