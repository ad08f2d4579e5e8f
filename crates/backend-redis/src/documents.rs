//! Documents about the installation, and figures of rollouts. They belong to no tenant.

use interlock_backend::StoreError;
use interlock_backend::documents::{Document, DocumentName, MEMBERS_MAX, too_many};
use interlock_backend::verbs::{DeleteFigures, ReadDocument, ReadFigures, SaveDocument, SaveFigures};
use interlock_model::InstanceId;

use crate::client::ScriptClient;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, Script, script};
use crate::store::{Execute, RedisStore, Scripted};

fn key(name: DocumentName) -> String {
    format!("sys:{}", name.as_str())
}

impl Scripted for ReadDocument {
    fn script() -> &'static Script {
        script!("read_document")
    }

    /// Every process reads it twice a second, and it changes once a week.
    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System).polling().with("name", key(self.name))
    }

    fn read(&self, mut reply: Reply) -> Result<Option<Document>, Unreadable> {
        let version = reply.optional("version")?;
        version.map(|version| Ok(Document { version, text: reply.text("text")? })).transpose()
    }
}

impl Execute for SaveDocument {
    async fn execute(self, store: &RedisStore) -> Result<bool, StoreError> {
        self.check()?;
        let call = Call::for_verb::<Self>(script!("save_document"), Home::System)
            .with("name", key(self.name))
            .with("expected", self.expected)
            .with("text", &self.text);
        store.ask_script(call, |mut reply| Ok(reply.flag("is_saved"))).await
    }
}

impl Execute for SaveFigures {
    async fn execute(self, store: &RedisStore) -> Result<(), StoreError> {
        self.check()?;
        let call = Call::for_verb::<Self>(script!("save_figures"), Home::System)
            .with("rollout", &self.rollout)
            .with("instance", &self.instance)
            .with("figures", &self.figures)
            .with("members_max", MEMBERS_MAX);
        let is_saved = store.ask_script(call, |mut reply| Ok(reply.flag("is_saved"))).await?;
        if is_saved { Ok(()) } else { Err(too_many(&self.rollout)) }
    }
}

impl Scripted for ReadFigures {
    fn script() -> &'static Script {
        script!("read_figures")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System).polling().with("rollout", &self.rollout)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<(InstanceId, String)>, Unreadable> {
        let mut found = reply.pairs("figures", |instance, figures| {
            Ok((instance.into_parsed("instance")?, figures.into_parsed("figures")?))
        })?;
        found.sort();
        Ok(found)
    }
}

impl Scripted for DeleteFigures {
    fn script() -> &'static Script {
        script!("delete_figures")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System).with("rollout", &self.rollout)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}
