//! Every script, put together from its shared pieces.

use std::sync::LazyLock;

use crate::script::Script;

macro_rules! shared {
    ($($name:ident = $file:literal;)*) => {
        $(const $name: &str = include_str!(concat!("lua/shared/", $file, ".lua"));)*
    };
}

shared! {
    APPEND = "append";
    CALL = "call";
    FENCE = "fence";
    INBOX = "inbox";
    JOB_VIEW = "job_view";
    JOBS = "jobs";
    LOCK = "run_lock";
    LOSSES = "losses";
    ORDER = "order";
    PAGE = "page";
    REGISTERED = "registry";
    SLOTS = "slots";
    STANDING = "standing";
    STATUS = "status";
}

macro_rules! scripts {
    ($($name:ident = $file:literal [$($part:ident),*];)*) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::of($file, &[CALL, $($part,)* include_str!(concat!("lua/", $file, ".lua"))])
        });)*
    };
}

scripts! {
    ADMIT = "admit" [FENCE, STATUS, JOBS, APPEND];
    TAKE_READY = "take_ready" [FENCE, LOCK];
    COMMIT = "commit" [FENCE, STATUS, LOCK, SLOTS, JOBS, APPEND];
    LET_GO = "let_go" [LOCK];
    REQUEST_CANCEL = "request_cancel" [STATUS, INBOX];
    DELETE_RUN = "delete_run" [LOCK, SLOTS];
    RIPEN = "ripen" [];
    RUN = "run" [];
    RUNS = "runs" [];
    ACTIVE_RUNS = "active_runs" [];
    GATE = "gate" [];
    DUE = "due" [];
    PULSE = "pulse" [];
    SET_LIMITS = "set_limits" [];
    SYSTEM_LIMITS = "system_limits" [];

    CLAIM = "claim" [FENCE, ORDER];
    HEARTBEAT = "heartbeat" [FENCE, STANDING];
    PROGRESS = "progress" [FENCE, STANDING];
    REPORT = "report" [FENCE, INBOX, JOBS, STANDING];
    CANCEL_JOB = "cancel_job" [FENCE, INBOX, JOBS];
    EXPIRE = "expire" [FENCE, INBOX, JOBS, LOSSES];
    ABANDON = "abandon" [FENCE, INBOX, JOBS, LOSSES, ORDER];
    JOB = "job" [JOB_VIEW];
    JOB_LIST = "jobs" [JOB_VIEW];
    RESOLVE = "resolve" [INBOX];
    APPROVALS = "approvals" [PAGE];
    TIMELINE = "timeline" [];
    WORKERS = "workers" [PAGE];
    WORKER = "worker" [];
    SAVE_WORKFLOW = "save_workflow" [];
    WORKFLOW = "workflow" [];
    WORKFLOW_VERSION = "workflow_version" [];
    WORKFLOWS = "workflows" [PAGE];
    DELETE_WORKFLOW = "delete_workflow" [];
    BURY = "bury" [];
    DEAD_LETTERS = "dead_letters" [PAGE];
    DEAD_LETTER = "dead_letter" [];
    DELETE_DEAD_LETTER = "delete_dead_letter" [];
    CREATE_KEY = "create_key" [];
    REVOKE_KEY = "revoke_key" [];
    API_KEYS = "api_keys" [];
    INTRODUCE = "introduce" [REGISTERED];
    BEAT = "beat" [REGISTERED];
    REGISTRY = "registry" [];
    FORGET_WORKER = "forget_worker" [];
}
