//! Workflow documents, every version of them.

use interlock_backend::Page;
use interlock_backend::verbs::{
    DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow,
};
use interlock_backend::workflows::WorkflowVersion;

use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for SaveWorkflow {
    fn script() -> &'static Script {
        script!("save_workflow")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("id", &self.id).with("document", encode::json(&self.document))
    }

    fn read(&self, mut reply: Reply) -> Result<u32, Unreadable> {
        reply.parsed("version")
    }
}

impl Scripted for ReadWorkflow {
    fn script() -> &'static Script {
        script!("read_workflow")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("id", &self.id)
    }

    fn read(&self, reply: Reply) -> Result<Option<WorkflowVersion>, Unreadable> {
        reply.when_found(read_version)
    }
}

impl Scripted for ReadWorkflowVersion {
    fn script() -> &'static Script {
        script!("read_workflow_version")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("id", &self.id).with("version", self.version.to_string())
    }

    fn read(&self, reply: Reply) -> Result<Option<WorkflowVersion>, Unreadable> {
        reply.when_found(read_version)
    }
}

impl Scripted for ListWorkflows {
    fn script() -> &'static Script {
        script!("list_workflows")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).page(&self.page)
    }

    fn read(&self, reply: Reply) -> Result<Page<WorkflowVersion>, Unreadable> {
        reply.page(read_version)
    }
}

impl Scripted for DeleteWorkflow {
    fn script() -> &'static Script {
        script!("delete_workflow")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).of("workflow", &self.id).with("id", &self.id)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

fn read_version(mut version: Reply) -> Result<WorkflowVersion, Unreadable> {
    Ok(WorkflowVersion {
        id: version.parsed("id")?,
        version: version.parsed("version")?,
        document: version.json("document")?,
        created_at: version.time("created_at")?,
    })
}
