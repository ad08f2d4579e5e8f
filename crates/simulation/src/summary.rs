//! What a seed went through: clean seeds mean something only if the interesting things happened in them.

macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often each thing happened.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Summary {
            /// A hash of everything that happened, in order.
            pub history: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Summary {
            /// Both together. The histories have nothing to add up to.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Each thing by name.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counted! {
    /// Store calls that were checked.
    calls,
    /// Simulated milliseconds.
    simulated_ms,
    admitted,
    /// Admitted together with its first turn.
    first_turns,
    /// Admitted, and left to the engine to begin.
    left_to_the_engine,
    /// Refused at the cap.
    refused,
    /// Accepted without slots.
    queued,
    /// Queued runs that got their slots.
    runs_granted,
    /// Children that were started, that waited for limits first, and that were refused.
    children_started,
    children_queued,
    children_refused,
    /// Children that a turn cancelled, or did not want started any more.
    children_given_up,
    /// Events that were posted, that had been before, and that came after the end of their run.
    events_sent,
    events_sent_again,
    events_too_late,
    /// Events that were sent to keys: deliveries, and those for which no run waited.
    keyed_events_delivered,
    keyed_events_kept,
    /// Answered with a run that existed.
    joined,
    /// Taken in by a run that waited for newer starts.
    taken_in,
    /// Runs whose quiet period ended.
    quiet_periods_ended,
    /// Refused by a named limit, or by a full queue.
    limits_reached,
    /// Decided by limits that had changed.
    limits_changed,
    /// Admitted when it took the tenant's last slot.
    admitted_at_the_edge,
    replays,
    keys_reused,
    /// For starts under their tenant's lock.
    keys_reserved,
    /// Of starts under the lock that came to nothing.
    keys_released,
    /// Reservations and creates under a lock that was lost.
    stale_admissions_refused,
    /// A key that was used afresh after its retention.
    keys_renewed,
    /// Admitted before, asked again because the answer was lost.
    admissions_repeated,
    definitions_changed,
    /// Calls of clients and workers that got no answer.
    answers_lost,
    /// Starts that were answered with an unknown outcome.
    starts_unknown,
    crashes,
    stale_reports_refused,
    stale_heartbeats_refused,
    stale_commits_refused,
    reports_repeated,
    leases_lost,
    /// Jobs that ended because their time was over: of their attempt, or of their wait for a worker.
    jobs_timed_out,
    jobs_unclaimed,
    runs_taken_over,
    retries,
    steps_timed_out,
    errors_redirected,
    cancels,
    deletions_of_live_runs,
    deletions_of_ended_runs,
    approvals,
    rejections,
    late_verdicts,
    reruns,
    limits_lowered_below_usage,
    runs_succeeded,
    runs_failed,
    runs_denied,
    runs_cancelled,
    runs_timed_out,
    wakeups_lost,
    locks_granted,
    locks_refused,
    /// Looks of those who stand in line.
    locks_waited_for,
    /// Answers that repeated a grant.
    locks_asked_again,
    locks_withdrawn,
    stale_lock_calls_refused,
    /// Results that found their run held.
    results_busy,
    results_put_off,
    results_delivered_again,
    /// Leases that expired while their job's result was deferred: the result ended the job.
    results_kept_from_expiry,
    /// Another word about a job whose result waits.
    contradictions_refused,
    results_buried,
    permits_granted,
    /// Answers that repeated a grant.
    permits_asked_again,
    permits_refused,
    permits_expired,
    permits_ended,
    /// Settlements and releases of permits that had ended.
    permits_ended_again,
    /// Jobs that have reserved, and that found too little left.
    jobs_funded,
    jobs_without_budget,
    jobs_queued_for_budgets,
    /// Jobs that their budget ended, and that it asked a person about.
    jobs_exhausted,
    budgets_asked_about,
    /// Ends of jobs that had reserved.
    jobs_settled,
    jobs_unsettled,
    jobs_released,
}
