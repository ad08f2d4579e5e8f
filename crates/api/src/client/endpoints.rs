//! The endpoints that need nothing but their path and one value: one line each.

use interlock_model::JobId;
use interlock_model::contention::Scope;

use super::paths::path;
use super::{Client, Result};
use crate::approvals::ApprovalView;
use crate::budgets::{
    AdjustRequest, BudgetDetail, BudgetQuery, BudgetUsage, BudgetView, EndedPermitView, PermitView,
    ReleasePermitRequest, RenewPermitRequest, ReserveRequest, SettleRequest,
};
use crate::dead_letters::{DeadLetterView, DeadLettersAnswer, DeadLettersRequest, RetriedDeadLetter};
use crate::dispatch_policy::{CheckRequest, CheckView, DispatchPolicyView};
use crate::history::TimelineItem;
use crate::jobs::{
    CompleteRequest, FailRequest, HeartbeatAnswer, HeartbeatRequest, JobQuery, JobView, ProgressRequest,
    ReleaseJobRequest,
};
use crate::keys::{CreateKeyRequest, CreatedKey, KeyView, RotateKeyRequest};
use crate::limits::{ConfigQuery, ConfigRequest, ConfigView, EffectiveConfig, EffectiveConfigQuery};
use crate::locks::{
    ForceReleaseRequest, LockEventView, LockGrant, LockHistoryQuery, LockView, ReleaseRequest, RenewRequest,
};
use crate::named_limits::{
    ExplainRequest, ExplainView, LimitView, PauseRequest, QueueQuery, QueuedRunView, SystemLimitView,
};
use crate::retry_policies::{RetryPolicyDetail, RetryPolicyView, RollbackRequest, SetPolicyRequest};
use crate::rollouts::{EndRolloutRequest, RolloutView, StartRolloutRequest};
use crate::runs::{MoveRequest, RunQuery, RunSummary, RunView};
use crate::sent_events::{SendEventRequest, SendKeyedEventRequest, SentEventView, SentKeyedEventView};
use crate::status::StatusView;
use crate::why::{WhyQuery, WhyView};
use crate::workers::{DrainRequest, WorkerView};
use crate::workflows::{CreatedWorkflow, PauseWorkflowRequest, WorkflowPauseView, WorkflowView};
use crate::{Page, PageQuery};

/// Declares a method of [`Client`] for each line: its name and ids, the HTTP method, the segments of the path, what it
/// sends as `query` or `body`, and the answer.
macro_rules! endpoints {
    ($($(#[doc = $doc:literal])*
        $name:ident($($id:ident: $type:ty),*):
        $method:ident [$($segment:expr),*] $(, $part:ident $sent:ty)? $(=> $answer:ty)?;
    )*) => {
        impl Client {
            $($(#[doc = $doc])*
            pub async fn $name(&self, $($id: $type,)* $($part: &$sent)?) -> Result<endpoints!(@type $($answer)?)> {
                let call = self.$method(&path(&[$(&$segment),*]));
                $(let call = call.$part($part);)?
                endpoints!(@send call $($answer)?)
            })*
        }
    };
    (@type) => { () };
    (@type $answer:ty) => { $answer };
    (@send $call:ident) => { $call.done().await };
    (@send $call:ident $answer:ty) => { $call.read::<$answer>().await };
}

endpoints! {
    /// Saves a document as the next version of its workflow.
    create_workflow(): post ["workflows"], body serde_json::Value => CreatedWorkflow;
    workflows(): get ["workflows"], query PageQuery => Page<WorkflowView>;
    workflow(id: &str): get ["workflows", id] => WorkflowView;
    delete_workflow(id: &str): delete ["workflows", id];
    pause_workflow(id: &str): post ["workflows", id, "pause"], body PauseWorkflowRequest => WorkflowPauseView;
    resume_workflow(id: &str): post ["workflows", id, "resume"] => WorkflowPauseView;

    runs(): get ["workflow-runs"], query RunQuery => Page<RunSummary>;
    run(id: &str): get ["workflow-runs", id] => RunView;
    /// Requests the cancellation of a run. Safe to repeat.
    cancel_run(id: &str): post ["workflow-runs", id, "cancel"];
    delete_run(id: &str): delete ["workflow-runs", id];
    /// The events of a run, oldest first.
    timeline(run: &str): get ["workflow-runs", run, "timeline"], query PageQuery => Page<TimelineItem>;

    approvals(): get ["approvals"], query PageQuery => Page<ApprovalView>;

    jobs(): get ["jobs"], query JobQuery => Page<JobView>;
    job(id: &str): get ["jobs", id] => JobView;
    cancel_job(id: &str): post ["jobs", id, "cancel"];
    /// Renews the job's lease. `stale_fence` means that the job is lost.
    heartbeat(job: &JobId): post ["jobs", job, "heartbeat"], body HeartbeatRequest => HeartbeatAnswer;
    /// Safe to repeat with the same fence.
    complete(job: &JobId): post ["jobs", job, "complete"], body CompleteRequest;
    /// Safe to repeat with the same fence.
    fail(job: &JobId): post ["jobs", job, "fail"], body FailRequest;
    /// Hands the job to the next worker. Safe to repeat with the same fence.
    release_job(job: &JobId): post ["jobs", job, "release"], body ReleaseJobRequest;
    progress(job: &JobId): post ["jobs", job, "progress"], body ProgressRequest;

    workers(): get ["workers"], query PageQuery => Page<WorkerView>;
    worker(id: &str): get ["workers", id] => WorkerView;
    /// Stops or resumes giving jobs to a worker.
    drain_worker(id: &str): post ["workers", id, "drain"], body DrainRequest => WorkerView;

    /// The dispatch policy in force for the tenant.
    dispatch_policy(): get ["dispatch-policy"] => DispatchPolicyView;
    /// What the policy would decide, and why. Changes nothing.
    check_dispatch(): post ["dispatch-policy", "check"], body CheckRequest => CheckView;

    /// Dead letters, those of the newest runs first.
    dead_letters(): get ["dlq"], query PageQuery => Page<DeadLetterView>;
    dead_letter(job: &str): get ["dlq", job] => DeadLetterView;
    /// Deletes a dead letter. The job and its run stay as they are.
    delete_dead_letter(job: &str): delete ["dlq", job];
    /// Retries the step of a dead letter in its run.
    retry_dead_letter(job: &str): post ["dlq", job, "retry"] => RetriedDeadLetter;
    retry_dead_letters(): post ["dlq", "retry"], body DeadLettersRequest => DeadLettersAnswer;
    delete_dead_letters(): post ["dlq", "delete"], body DeadLettersRequest => DeadLettersAnswer;

    /// The tenant's held locks, newest first.
    locks(): get ["locks"], query PageQuery => Page<LockView>;
    /// The events of a lock, newest first.
    lock_history(): get ["locks", "history"], query LockHistoryQuery => Page<LockEventView>;
    /// Extends the lease. `stale_fence` means that it has ended.
    renew_lock(): post ["locks", "renew"], body RenewRequest => LockGrant;
    /// Ends the lease. Safe to repeat.
    release_lock(): post ["locks", "release"], body ReleaseRequest;
    /// Ends the lease of another owner.
    force_release_lock(): post ["locks", "force-release"], body ForceReleaseRequest;

    budgets(): get ["budgets"], query PageQuery => Page<BudgetView>;
    /// A budget with its busiest keys, or with one of them.
    budget(name: &str): get ["budgets", name], query BudgetQuery => BudgetDetail;
    delete_budget(name: &str): delete ["budgets", name];
    /// Reserves a part of a budget. `budget_exhausted` means that too little is left. Safe to repeat.
    reserve_budget(name: &str): post ["budgets", name, "reserve"], body ReserveRequest => PermitView;
    /// Extends a permit.
    renew_permit(name: &str): post ["budgets", name, "renew"], body RenewPermitRequest => PermitView;
    /// Counts what was spent, and ends the permit. Safe to repeat.
    settle_permit(name: &str): post ["budgets", name, "settle"], body SettleRequest => EndedPermitView;
    /// Ends a permit of which nothing was spent. Safe to repeat.
    release_permit(name: &str): post ["budgets", name, "release"], body ReleasePermitRequest => EndedPermitView;
    /// Changes what may be spent.
    adjust_budget(name: &str): post ["budgets", name, "adjust"], body AdjustRequest => BudgetUsage;

    /// Replaces the limits of a scope, effective with the answer.
    put_config(): put ["config"], body ConfigRequest;
    config(): get ["config"], query ConfigQuery => ConfigView;
    /// The limits in force for a tenant, by default the caller's own.
    effective_config(): get ["config", "effective"], query EffectiveConfigQuery => EffectiveConfig;

    /// All limits with their usage.
    limits(): get ["limits"], query PageQuery => Page<LimitView>;
    limit(name: &str): get ["limits", name] => LimitView;
    delete_limit(name: &str): delete ["limits", name];
    pause_limit(name: &str): post ["limits", name, "pause"], body PauseRequest => LimitView;
    resume_limit(name: &str): post ["limits", name, "resume"] => LimitView;
    /// The named limits of the system.
    system_limits(): get ["system", "limits"], query PageQuery => Page<SystemLimitView>;
    system_limit(name: &str): get ["system", "limits", name] => SystemLimitView;
    delete_system_limit(name: &str): delete ["system", "limits", name];
    pause_system_limit(name: &str): post ["system", "limits", name, "pause"], body PauseRequest => SystemLimitView;
    resume_system_limit(name: &str): post ["system", "limits", name, "resume"] => SystemLimitView;
    /// The runs that wait, in order.
    limit_queue(name: &str): get ["limits", name, "queue"], query QueueQuery => Page<QueuedRunView>;
    /// What limits would do to a start. Starts nothing.
    explain_limits(): post ["limits", "explain"], body ExplainRequest => ExplainView;
    /// Moves a waiting run within its queue.
    /// Sends an event to a run.
    send_event(run: &str): post ["workflow-runs", run, "events"], body SendEventRequest => SentEventView;
    /// Sends an event to every run that waits for its key.
    send_event_to_key(): post ["events"], body SendKeyedEventRequest => SentKeyedEventView;
    move_run(run: &str): post ["workflow-runs", run, "move"], body MoveRequest;

    /// The policies in force.
    retry_policies(): get ["retry-policies"] => Page<RetryPolicyView>;
    /// The policy of one scope, with its history.
    retry_policy(scope: Scope): get ["retry-policies", scope.name()] => RetryPolicyDetail;
    set_retry_policy(scope: Scope):
        put ["retry-policies", scope.name()], body SetPolicyRequest => RetryPolicyView;
    /// Restores the previous version.
    roll_back_retry_policy(scope: Scope):
        post ["retry-policies", scope.name(), "rollback"], body RollbackRequest => RetryPolicyView;

    start_rollout(): post ["rollouts"], body StartRolloutRequest => RolloutView;
    /// Newest first.
    rollouts(): get ["rollouts"], query PageQuery => Page<RolloutView>;
    rollout(id: &str): get ["rollouts", id] => RolloutView;
    /// Ends the rollout and puts its candidate in force.
    promote_rollout(id: &str): post ["rollouts", id, "promote"], body EndRolloutRequest => RolloutView;
    /// Ends the rollout and keeps the control in force.
    abort_rollout(id: &str): post ["rollouts", id, "abort"], body EndRolloutRequest => RolloutView;

    /// Creates a key. Only this answer has its secret.
    create_key(): post ["keys"], body CreateKeyRequest => CreatedKey;
    keys(): get ["keys"], query PageQuery => Page<KeyView>;
    /// Replaces a key. Only this answer has the new secret.
    rotate_key(id: &str): post ["keys", id, "rotate"], body RotateKeyRequest => CreatedKey;
    revoke_key(id: &str): delete ["keys", id];

    /// What something waits for now.
    why(): get ["why"], query WhyQuery => WhyView;
    status(): get ["status"] => StatusView;
}
