//! Workflow documents.

use rand::RngExt as _;

use super::super::scene::{deploy, document};
use super::sampled;
use crate::verbs::{DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow};

sampled!(
    SaveWorkflow,
    4,
    |walk| Some(SaveWorkflow { tenant: walk.tenant(), id: walk.workflow(), document: document() }),
    |asked, version, known| {
        if asked.id == deploy() {
            known.versions.insert(asked.tenant.clone(), *version);
        }
    }
);

sampled!(ReadWorkflow, 1, |walk| Some(ReadWorkflow { tenant: walk.tenant(), id: walk.workflow() }));

sampled!(ReadWorkflowVersion, 1, |walk| {
    let version = walk.random.random_range(0..9);
    Some(ReadWorkflowVersion { tenant: walk.tenant(), id: walk.workflow(), version })
});

sampled!(
    ListWorkflows,
    1,
    |walk| {
        let tenant = walk.tenant();
        let page = walk.page(&format!("workflows of {tenant}"));
        Some(ListWorkflows { tenant, page })
    },
    |asked, answer, known| known.learn_page(format!("workflows of {}", asked.tenant), answer)
);

sampled!(DeleteWorkflow, 1, |walk| Some(DeleteWorkflow { tenant: walk.tenant(), id: walk.workflow() }));
