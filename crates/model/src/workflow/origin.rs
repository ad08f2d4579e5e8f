//! What documents of other systems have besides: who wrote them, labels for workers, and paths of outputs.

use std::collections::BTreeMap;

use super::compile::{InvalidWorkflow, WrittenStep, at, require};
use super::document::WorkflowDocument;
use crate::Tag;
use crate::meta::{
    JobMeta, LABEL_CHARS_MAX, LABEL_NAME_CHARS_MAX, LABELS_MAX, PLACING_PREFIXES, TAGS_MAX, WORKER_LABEL,
};
use crate::run::context::{ContextPath, InvalidPath};

/// Characters of a path of members, and its members.
const PATH_CHARS_MAX: usize = 256;
const PATH_MEMBERS_MAX: usize = 16;

/// Whether a field has a value. Tools write empty texts for absent ones.
pub(super) fn is_given(field: Option<&String>) -> bool {
    field.is_some_and(|text| !text.is_empty())
}

/// What says who wrote a workflow, and what it is for.
pub(super) fn check_provenance(document: &WorkflowDocument) -> Result<(), InvalidWorkflow> {
    let version = document.version.as_ref().map(|version| version.0.clone());
    for (place, text) in
        [("version", &version), ("team_id", &document.team_id), ("created_by", &document.created_by)]
    {
        at(place, short(text.as_deref()))?;
    }
    at("labels", check_labels(&document.labels))?;
    let problem = "a workflow has no policy of its own here: write the rules into the dispatch policy, and omit this field";
    at("policy_override", require(!is_given(document.policy_override.as_ref()), problem.to_owned()))
}

fn short(text: Option<&str>) -> Result<(), String> {
    let is_short = text.is_none_or(|text| text.chars().count() <= LABEL_NAME_CHARS_MAX);
    require(is_short, format!("use at most {LABEL_NAME_CHARS_MAX} characters"))
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    require(labels.len() <= LABELS_MAX, format!("use at most {LABELS_MAX} labels"))?;
    labels.iter().try_for_each(|(name, value)| {
        short(Some(name))?;
        let is_short = value.chars().count() <= LABEL_CHARS_MAX;
        require(is_short, format!("use at most {LABEL_CHARS_MAX} characters for a value"))
    })
}

/// The members of a path; none for an absent or empty one.
pub(super) fn path(written: Option<&str>) -> Result<Vec<String>, String> {
    let written = written.unwrap_or_default().trim();
    if written.is_empty() {
        return Ok(Vec::new());
    }
    let members: Vec<String> = written.split('.').map(|member| member.trim().to_owned()).collect();
    let is_path = written.chars().count() <= PATH_CHARS_MAX
        && members.len() <= PATH_MEMBERS_MAX
        && members.iter().all(|member| !member.is_empty());
    require(
        is_path,
        format!(
            "use names with dots between them, at most {PATH_MEMBERS_MAX} and {PATH_CHARS_MAX} characters"
        ),
    )?;
    Ok(members)
}

/// Where in the context an output is kept; none for an absent or empty path.
pub(super) fn context_path(written: Option<&str>) -> Result<Option<ContextPath>, InvalidPath> {
    let written = written.unwrap_or_default().trim();
    let within = written.strip_prefix("ctx.").unwrap_or(written);
    if within.is_empty() { Ok(None) } else { within.parse().map(Some) }
}

impl WrittenStep<'_> {
    /// What a document of another system says about a step, as far as it can be honoured.
    pub(super) fn check_origin(self) -> Result<(), InvalidWorkflow> {
        let document = self.document;
        let is_own = document.id.as_ref().is_none_or(|id| id == self.id);
        self.at("id", require(is_own, format!("use the step's own id, {}, or omit it", self.id)))?;
        self.at("name", short(document.name.as_deref()))?;
        for (field, id, inline) in [
            ("input_schema_id", document.input_schema_id.as_ref(), "input_schema"),
            ("output_schema_id", document.output_schema_id.as_ref(), "output_schema"),
        ] {
            let problem = format!("there is no registry of schemas here: write the schema into {inline}");
            self.at(field, require(!is_given(id), problem))?;
        }
        Ok(())
    }

    /// What its jobs carry: labels to route by are labels and, where only some workers have them, requirements.
    pub(super) fn meta(self) -> Result<JobMeta, InvalidWorkflow> {
        let mut meta = self.document.meta.clone().unwrap_or_default();
        for (name, value) in &self.document.route_labels {
            let problem = "labels to route by are no templates";
            self.at("route_labels", require(!value.contains("${"), problem.to_owned()))?;
            if PLACING_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                let required: Tag = self.at("route_labels", format!("{name}:{value}").parse())?;
                meta.requires.insert(required);
            }
            meta.labels.insert(name.clone(), value.clone());
        }
        if let Some(worker) = self.document.worker_id.clone().filter(|worker| !worker.is_empty()) {
            meta.labels.insert(WORKER_LABEL.to_owned(), worker);
        }
        self.at("meta.labels", check_labels(&meta.labels))?;
        for (field, text) in [
            ("meta.actor_id", &meta.actor_id),
            ("meta.idempotency_key", &meta.idempotency_key),
            ("meta.pack_id", &meta.pack_id),
        ] {
            self.at(field, short(text.as_deref()))?;
        }
        for (field, tags) in [("meta.risk_tags", &meta.risk_tags), ("meta.requires", &meta.requires)] {
            self.at(field, require(tags.len() <= TAGS_MAX, format!("use at most {TAGS_MAX} tags")))?;
        }
        Ok(meta)
    }
}
