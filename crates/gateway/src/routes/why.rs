//! What something waits for.

use interlock_api::why::{CauseHolder, CauseView, WhyQuery, WhyView};
use interlock_backend::verbs::ReadWorkflow;
use interlock_control::why::WhyAnswer;
use interlock_model::lock::{LockName, StageLock};
use interlock_model::time::millis;
use interlock_model::why::{Cause, CauseCode, Holder, WaitOutcome};
use interlock_model::{JobId, Resource, RunId, WorkflowId};

use super::limit_views::deciding;
use super::{Answer, Caller, Json, Parameters, Permission, Refusal, endpoints, found};
use crate::path::named;

endpoints!("why": why);

const SUBJECTS: [&str; 4] = ["run_id", "job_id", "resource", "workflow_id"];

/// What a run, a job, a lock or a start waits for: who holds it, since when, the place in the queue, the expected wait.
#[utoipa::path(get, path = "/api/v1/why", params(WhyQuery), responses((status = 200, body = WhyView),
    (status = 404, description = "There is no such run, job or workflow (`not_found`)")))]
async fn why(caller: Caller, parameters: Parameters) -> Answer<WhyView> {
    let mut given = Vec::new();
    for name in SUBJECTS {
        given.extend(parameters.text(name)?.map(|text| (name, text)));
    }
    let [(name, text)] = given[..] else {
        return Err(Refusal::invalid(format!("name exactly one of {}", SUBJECTS.join(", "))));
    };
    let (why, tenant) = (&caller.app.stages.why, &caller.tenant);
    let answer = match name {
        "run_id" => {
            let run: RunId = named(text)?;
            caller.may_for_run(Permission::ReadRuns, run).await?;
            why_run(&caller, run).await?
        }
        "job_id" => {
            let job: JobId = named(text)?;
            caller.may_for_run(Permission::ReadJobs, job.run).await?;
            found(why.job(tenant, &job).await?, &job)?
        }
        "resource" => {
            caller.may(Permission::ReadRest)?;
            why_lock(&caller, text).await?
        }
        _ => {
            let id: WorkflowId = named(text)?;
            caller.may_for(Permission::ReadRuns, &id)?;
            let read = ReadWorkflow { tenant: tenant.clone(), id: id.clone() };
            found(caller.app.store.call(read).await?, &id)?;
            why_start(&caller, &id).await?
        }
    };
    let WhyAnswer { state, now, causes, more } = answer;
    let causes = causes.into_iter().map(cause_view).collect();
    Ok(Json(WhyView { subject: text.to_owned(), state, time: now.into(), causes, more: more as u64 }))
}

/// What `limits explain` says of a start of this workflow, with who holds the slots. The tenant's own are looked at closer.
async fn why_start(caller: &Caller, workflow: &WorkflowId) -> Result<WhyAnswer, Refusal> {
    let Caller { app, tenant, .. } = caller;
    let (explanation, unknown) = app.stages.limits.explain_workflow(tenant, workflow).await?;
    let (why, (_, decided)) = (&app.stages.why, deciding(&explanation));
    let is_cap = |outcome| outcome == WaitOutcome::Rejected;
    let mut answer = match decided.filter(|(blocked, outcome)| !(blocked.is_of_tenant() && is_cap(*outcome)))
    {
        Some((blocked, outcome)) => why.start_in(tenant, &blocked, outcome).await?,
        None => why.start(tenant).await?,
    };
    answer.causes.extend(unknown.iter().map(|limit| {
        let sentence = format!(
            "what limit `{limit}` does to a start depends on its input or labels: `interlock limits explain --workflow \
             {workflow} --input JSON` says it"
        );
        Cause::new(CauseCode::Depends, sentence)
    }));
    Ok(answer)
}

async fn why_run(caller: &Caller, run: RunId) -> Result<WhyAnswer, Refusal> {
    found(caller.app.stages.why.run(&caller.tenant, run).await?, &run)
}

/// A lock of the tenant; or, by its key, a lock of the control plane.
async fn why_lock(caller: &Caller, text: &str) -> Result<WhyAnswer, Refusal> {
    let Caller { app, tenant, .. } = caller;
    let resource: Resource = text.parse().map_err(|error| Refusal::invalid(format!("resource: {error}")))?;
    let name = text.strip_prefix(&format!("{}:", app.deployment.prefix)).unwrap_or(text);
    if let Some(run) = name.strip_prefix("wf:run:lock:") {
        return why_run(caller, named(run)?).await;
    }
    let stage = StageLock::ALL.into_iter().find(|stage| stage.key() == name);
    let lock = match (stage, name.strip_prefix("wf:run:admission:")) {
        (Some(stage), _) => LockName::Stage(stage),
        (None, Some(own)) if own == tenant.as_str() => LockName::Admission(tenant.clone()),
        (None, _) => LockName::Of(tenant.clone(), resource),
    };
    Ok(app.stages.why.lock(&lock).await?)
}

fn cause_view(cause: Cause) -> CauseView {
    let Cause { code, sentence, step, job, since, until, holders, position, expected_wait } = cause;
    CauseView {
        code,
        detail: sentence,
        what_to_do: code.hint().to_owned(),
        step_id: step.or_else(|| job.as_ref().map(|job| job.step.clone())),
        job_id: job,
        since: since.map(Into::into),
        until: until.map(Into::into),
        holders: holders.into_iter().map(holder_view).collect(),
        position,
        expected_wait_ms: expected_wait.map(millis),
    }
}

fn holder_view(holder: Holder) -> CauseHolder {
    let Holder { name, since, until } = holder;
    CauseHolder { name, since: since.map(Into::into), until: until.map(Into::into) }
}
