//! Dead letters: kept until a person has dealt with them.

use interlock_backend::Page;
use interlock_backend::dead_letters::{DROPPED_AT_ONCE_MAX, DeadLetterCount, DeadLetterRetry};
use interlock_backend::verbs::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, ListDeadLetters, ReadDeadLetter, RetryDeadLetter,
};
use interlock_model::dead_letter::DeadLetter;

use crate::arguments::Arguments;
use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for AddDeadLetter {
    fn script() -> &'static Script {
        script!("add_dead_letter")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let letters = std::slice::from_ref(&self.dead_letter);
        Call::to::<Self>(&self.tenant).with("dead_letters", packed(letters, self.dead_letters_max))
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for RetryDeadLetter {
    fn script() -> &'static Script {
        script!("retry_dead_letter")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("dead letter", &self.job)
            .with("job", &self.job)
            .with("run", self.job.run)
            .with("event_start", encode::retry_without_letter(&self.by))
    }

    fn read(&self, mut reply: Reply) -> Result<DeadLetterRetry, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "posted" => Ok(DeadLetterRetry::Posted),
            "ended" => Ok(DeadLetterRetry::RunEnded),
            "gone" => Ok(DeadLetterRetry::RunGone),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for CountDeadLetters {
    fn script() -> &'static Script {
        script!("count_dead_letters")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
    }

    fn read(&self, mut reply: Reply) -> Result<DeadLetterCount, Unreadable> {
        Ok(DeadLetterCount { kept: reply.parsed("kept")?, dropped: reply.parsed("dropped")? })
    }
}

impl Scripted for ListDeadLetters {
    fn script() -> &'static Script {
        script!("list_dead_letters")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).page(&self.page)
    }

    fn read(&self, reply: Reply) -> Result<Page<DeadLetter>, Unreadable> {
        reply.page(|item| item.into_json("dead letter"))
    }
}

impl Scripted for ReadDeadLetter {
    fn script() -> &'static Script {
        script!("read_dead_letter")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("job", &self.job)
    }

    fn read(&self, reply: Reply) -> Result<Option<DeadLetter>, Unreadable> {
        reply.when_found(|mut reply| reply.json("dead_letter"))
    }
}

impl Scripted for DeleteDeadLetter {
    fn script() -> &'static Script {
        script!("delete_dead_letter")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).of("dead letter", &self.job).with("job", &self.job)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

/// As `add_dead_letters` of `lua/shared/dead_letters.lua` reads them.
pub(crate) fn packed(letters: &[DeadLetter], letters_max: u32) -> Arguments {
    let letter = |letter: &DeadLetter| {
        Arguments::default().with("job", &letter.job).with("document", encode::json(letter))
    };
    Arguments::default()
        .with("letters_max", letters_max)
        .with("dropped_max", DROPPED_AT_ONCE_MAX)
        .with("letters", letters.iter().map(letter).collect::<Vec<_>>())
}
