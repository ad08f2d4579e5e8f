//! A bus that loses wake-ups and says some twice.

use std::sync::{Mutex, PoisonError};

use interlock_backend::{Bus, InProcessBus, Wake};
use tokio::sync::broadcast;

use crate::checker::Shared;
use crate::dice::{Actor, Dice};

pub(crate) struct LossyBus {
    bus: InProcessBus,
    dice: Mutex<Dice>,
    /// Of a hundred.
    lost: u32,
    checker: Shared,
}

impl LossyBus {
    pub(crate) fn new(seed: u64, lost: u32, checker: Shared) -> Self {
        let dice = Mutex::new(Dice::of(Actor::Bus, seed));
        Self { bus: InProcessBus::default(), dice, lost, checker }
    }
}

/// Wake-ups of a hundred that are said twice.
const DOUBLED: u32 = 5;

impl Bus for LossyBus {
    fn wake(&self, wake: Wake) {
        let (is_lost, is_doubled) = {
            let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
            (dice.percent(self.lost), dice.percent(DOUBLED))
        };
        if is_lost {
            self.checker.with(|checker| checker.counts.wakeups_lost += 1);
            return;
        }
        if is_doubled {
            self.bus.wake(wake.clone());
        }
        self.bus.wake(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.bus.subscribe()
    }

    fn is_connected(&self) -> bool {
        self.bus.is_connected()
    }
}
