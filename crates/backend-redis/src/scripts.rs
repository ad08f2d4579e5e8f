//! Every script, put together from its shared pieces.

use std::sync::LazyLock;

use crate::script::Script;

macro_rules! shared {
    ($($name:ident = $file:literal;)*) => {
        $(const $name: &str = include_str!(concat!("lua/shared/", $file, ".lua"));)*
    };
}

shared! {
    ADMISSION_LOCK = "admission_lock";
    APPEND = "append";
    APPROVAL_RULES = "approval_rules";
    CALL = "call";
    DAMAGE_RULES = "damage_rules";
    FAILURES = "failures";
    FENCE = "fence";
    FIRST_WORD = "first_word";
    GATED = "gate";
    GIVEN = "given";
    IDEMPOTENCY = "idempotency";
    INBOX = "inbox";
    INSPECTION = "inspection";
    JOB_LOCK = "job_lock";
    JOB_RULES = "job_rules";
    JOB_VIEW = "job_view";
    JOBS = "jobs";
    KEY_RULES = "key_rules";
    LETTERS = "letters";
    LOCK = "run_lock";
    LOCK_RECORD = "lock_record";
    LOCK_RULES = "lock_rules";
    LOCK_VIEW = "lock_view";
    LOCKS = "locks";
    LOSSES = "losses";
    ORDER = "order";
    PAGE = "page";
    QUEUE = "queue";
    REGISTERED = "registry";
    RUN_RULES = "run_rules";
    SLOTS = "slots";
    STANDING = "standing";
    STATUS = "status";
    STEP_RULES = "step_rules";
    TAKE = "take";
    VISIBLE = "visible";
}

macro_rules! scripts {
    ($($name:ident = $file:literal [$($part:ident),*];)*) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::of($file, &[CALL, $($part,)* include_str!(concat!("lua/", $file, ".lua"))])
        });)*
    };
}

scripts! {
    ADMIT = "admit"
        [FAILURES, FENCE, STATUS, VISIBLE, JOB_LOCK, QUEUE, JOBS, APPEND, GATED, IDEMPOTENCY, ADMISSION_LOCK];
    RESERVE_KEY = "reserve_key" [FAILURES, GATED, IDEMPOTENCY, ADMISSION_LOCK];
    RELEASE_KEY = "release_key" [FAILURES, IDEMPOTENCY];
    COUNT_RUNS = "count_runs" [GATED];
    TAKE_READY = "take_ready" [FENCE, VISIBLE, LOCK, TAKE];
    COMMIT = "commit" [FENCE, STATUS, VISIBLE, LOCK, SLOTS, JOB_LOCK, QUEUE, JOBS, APPEND, LETTERS];
    KEEP_RUN = "keep_run" [VISIBLE, LOCK];
    LET_GO = "let_go" [VISIBLE, LOCK];
    REQUEST_CANCEL = "request_cancel" [STATUS, INBOX];
    DELETE_RUN = "delete_run" [VISIBLE, LOCK, SLOTS, JOB_LOCK, QUEUE];
    RIPEN = "ripen" [];
    RUN = "run" [];
    RUN_STANDING = "run_standing" [VISIBLE, LOCK];
    RUNS = "runs" [];
    ACTIVE_RUNS = "active_runs" [];
    GATE = "gate" [];
    DUE = "due" [];
    PULSE = "pulse" [];
    RHYTHMS = "rhythms" [];
    SET_LIMITS = "set_limits" [];
    SYSTEM_LIMITS = "system_limits" [];

    CLAIM = "claim" [FENCE, ORDER, VISIBLE, JOB_LOCK, QUEUE];
    HEARTBEAT = "heartbeat" [FENCE, STANDING, VISIBLE, JOB_LOCK];
    PROGRESS = "progress" [FENCE, STANDING];
    REPORT = "report" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS, STANDING];
    REPORT_AND_TAKE = "report_and_take"
        [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS, STANDING, LOCK, TAKE, FIRST_WORD];
    PUT_OFF = "put_off" [FENCE, STANDING, VISIBLE, JOB_LOCK, FIRST_WORD];
    TAKE_PUT_OFF = "take_put_off" [INBOX, GIVEN];
    TAKE_HELD = "take_held" [GIVEN];
    SETTLE_HELD = "settle_held" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS];
    CANCEL_JOB = "cancel_job" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS];
    EXPIRE = "expire" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS, GIVEN, LOSSES];
    ABANDON = "abandon" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS, GIVEN, LOSSES, ORDER];
    JOBS_BEFORE = "jobs_before" [QUEUE];
    JOB = "job" [JOB_VIEW];
    JOB_LIST = "jobs" [JOB_VIEW];
    RESOLVE = "resolve" [FENCE, INBOX, VISIBLE, JOB_LOCK, QUEUE, JOBS];
    APPROVALS = "approvals" [PAGE];
    TIMELINE = "timeline" [];
    WORKERS = "workers" [PAGE];
    WORKER = "worker" [];
    DRAIN_WORKER = "drain_worker" [];
    FORGET_RECORD = "forget_record" [];
    SAVE_WORKFLOW = "save_workflow" [];
    WORKFLOW = "workflow" [];
    WORKFLOW_VERSION = "workflow_version" [];
    WORKFLOWS = "workflows" [PAGE];
    DELETE_WORKFLOW = "delete_workflow" [];
    BURY = "bury" [LETTERS];
    DEAD_LETTERS = "dead_letters" [PAGE];
    DEAD_LETTER = "dead_letter" [];
    DELETE_DEAD_LETTER = "delete_dead_letter" [];
    RETRY_DEAD_LETTER = "retry_dead_letter" [STATUS, INBOX];
    COUNT_DEAD_LETTERS = "count_dead_letters" [];
    LEASES_RUN_OUT = "leases_run_out" [];
    REPLAY = "replay" [QUEUE];
    MEND_SLOTS = "mend_slots" [STATUS, PAGE];
    RETIRE = "retire" [];
    CREATE_KEY = "create_key" [];
    REVOKE_KEY = "revoke_key" [];
    API_KEYS = "api_keys" [];
    DOCUMENT = "document" [];
    SAVE_DOCUMENT = "save_document" [];
    SAVE_FIGURES = "save_figures" [];
    FIGURES = "figures" [];
    FORGET_FIGURES = "forget_figures" [];
    INTRODUCE = "introduce" [REGISTERED];
    BEAT = "beat" [REGISTERED];
    DRAIN = "drain" [];
    REGISTRY = "registry" [];
    FORGET_WORKER = "forget_worker" [];
    SAVE_SNAPSHOT = "save_snapshot" [FAILURES, LOCK_RECORD];
    SNAPSHOT = "snapshot" [];

    ACQUIRE_LOCK = "acquire_lock" [FAILURES, FENCE, VISIBLE, LOCK_RECORD, LOCKS];
    RENEW_LOCK = "renew_lock" [FAILURES, FENCE, VISIBLE, LOCK_RECORD, LOCKS];
    RELEASE_LOCK = "release_lock" [FAILURES, FENCE, VISIBLE, LOCK_RECORD, LOCKS];
    WITHDRAW_LOCK = "withdraw_lock" [FAILURES, FENCE, VISIBLE, LOCK_RECORD, LOCKS];
    LOCK_DETAIL = "lock" [FAILURES, LOCK_RECORD, LOCK_VIEW];
    LOCK_LIST = "locks" [FAILURES, LOCK_RECORD, LOCK_VIEW, PAGE];
    LOCK_HISTORY = "lock_history" [FAILURES, LOCK_RECORD];

    INSPECT = "inspect"
        [FAILURES, FENCE, ORDER, STATUS, VISIBLE, LOCK, SLOTS, JOB_LOCK, QUEUE, JOBS, INBOX, IDEMPOTENCY, INSPECTION,
         RUN_RULES, JOB_RULES, STEP_RULES, APPROVAL_RULES, KEY_RULES, DAMAGE_RULES];
    MEND = "mend"
        [FAILURES, FENCE, ORDER, STATUS, VISIBLE, LOCK, SLOTS, JOB_LOCK, QUEUE, JOBS, INBOX, IDEMPOTENCY, INSPECTION,
         RUN_RULES, JOB_RULES, STEP_RULES, APPROVAL_RULES, KEY_RULES, DAMAGE_RULES];
    INSPECT_LOCKS = "inspect" [FAILURES, FENCE, STATUS, VISIBLE, LOCK_RECORD, LOCKS, INSPECTION, LOCK_RULES];
    MEND_LOCKS = "mend" [FAILURES, FENCE, STATUS, VISIBLE, LOCK_RECORD, LOCKS, INSPECTION, LOCK_RULES];
    READ_DOCUMENTS = "documents" [STATUS, INSPECTION];
}
