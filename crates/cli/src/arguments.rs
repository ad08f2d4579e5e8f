//! The command line. The arguments of each noun are in its file under `commands`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{
    approval, budgets, dispatch_policy, dlq, doctor, drill, events, jobs, keys, lab, limits, locks,
    retry_policy, rollout, run, why, worker, workers, workflow,
};
use crate::config::ServeFlags;

const EXAMPLES: &str = "\
Examples:
  interlock serve                                    # run the server; data in ./interlock-data
  interlock workflow create --file build.yaml        # prints the workflow id
  interlock run start build --input '{\"n\": 1}'       # prints the run id
  interlock worker run --topic build -- ./build.sh   # input on stdin, output from stdout
  interlock run watch 0192f0c1-…                     # follow it until it ends

Exit codes: 0 done; 1 refused, failed or findings; 2 wrong usage; 3 gateway unreachable.
Environment: INTERLOCK_GATEWAY, INTERLOCK_API_KEY, INTERLOCK_TENANT_ID (CORDUM_… also works), INTERLOCK_CA_FILE.";

/// Control plane for AI-agent workflow runs: decides who may start, who may write, who goes next
#[derive(Debug, Parser)]
#[command(name = "interlock", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const GATEWAY_HELP: &str = "Gateway to call; also `INTERLOCK_GATEWAY` [default: http://127.0.0.1:8081]";

/// How to reach the gateway. These flags may stand anywhere.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConnectionFlags {
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection", help = GATEWAY_HELP)]
    pub(crate) gateway: Option<String>,
    /// API key; prefer `INTERLOCK_API_KEY`: flags are visible in process listings
    #[arg(long, global = true, value_name = "KEY", help_heading = "Connection")]
    pub(crate) api_key: Option<String>,
    /// Tenant, for keys that cover more than one; also `INTERLOCK_TENANT_ID`
    #[arg(long, global = true, value_name = "TENANT", help_heading = "Connection")]
    pub(crate) tenant: Option<String>,
    /// CA certificates to trust besides the system's, as PEM; also `INTERLOCK_CA_FILE`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca_file: Option<std::path::PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true, help_heading = "Connection")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeFlags>),
    /// Create, check, draw, show and delete workflows
    #[command(subcommand, visible_alias = "workflows")]
    Workflow(workflow::WorkflowCommand),
    /// Start, watch and cancel runs
    #[command(subcommand, visible_alias = "runs")]
    Run(run::RunCommand),
    /// Send events to the runs that wait for their key
    #[command(subcommand, visible_alias = "events")]
    Event(events::EventCommand),
    /// Approve or reject pending steps
    #[command(subcommand, visible_alias = "approvals")]
    Approval(approval::ApprovalCommand),
    /// Run a command as a worker
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Set, explain and pause limits, and see who waits for them
    #[command(subcommand, visible_alias = "limit", after_help = limits::EXAMPLES)]
    Limits(limits::LimitsCommand),
    /// Reserve from budgets, settle what was spent, and see what is left
    #[command(subcommand, visible_alias = "budget")]
    Budgets(budgets::BudgetsCommand),
    /// Acquire, renew and release locks, and see who holds them
    #[command(subcommand, visible_alias = "lock")]
    Locks(locks::LocksCommand),
    /// Show, change and explain the retry policies of contended locks
    #[command(subcommand, after_help = retry_policy::EXAMPLES)]
    RetryPolicy(retry_policy::RetryPolicyCommand),
    /// Try a retry policy on a share of the runs, with automatic rollback
    #[command(subcommand, after_help = rollout::EXAMPLES)]
    Rollout(rollout::RolloutCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// List and drain workers
    #[command(subcommand)]
    Workers(workers::WorkersCommand),
    /// Inspect and cancel jobs
    #[command(subcommand, visible_alias = "job")]
    Jobs(jobs::JobsCommand),
    /// Show and test the policy that decides which jobs may go to a worker
    #[command(subcommand, after_help = dispatch_policy::EXAMPLES)]
    DispatchPolicy(dispatch_policy::DispatchPolicyCommand),
    /// Inspect, retry and delete dead letters
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Check invariants and repair violations
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorFlags),
    /// Pause a lease holder and verify that its late writes are rejected
    #[command(after_help = drill::EXAMPLES)]
    Drill(drill::Drill),
    #[command(hide = true)]
    DrillParty(drill::DrillParty),
    /// Measure contention: compare strategies and retry policies under load
    #[command(after_help = lab::EXAMPLES)]
    Lab(lab::Lab),
    /// Explain what a run, a job, a lock or a start waits for
    #[command(after_help = why::EXAMPLES)]
    Why(why::WhyFlags),
    /// Show server status
    Status,
    /// Generate shell completions
    #[command(after_help = "Example: interlock completions bash > /etc/bash_completion.d/interlock")]
    Completions {
        /// Shell to generate them for
        shell: Shell,
    },
}

const SERVE_EXAMPLES: &str = "\
More settings: interlock serve --print-config

Each setting is a flag (--poll-ms), an environment variable (INTERLOCK_POLL_MS) and a key of the
file (poll_ms). A flag overrides the variable, and the variable overrides the file.

Examples:
  interlock serve --listen 127.0.0.1:8081 --data ./interlock-data
  interlock serve --print-config > interlock.toml
  INTERLOCK_ADMIN_KEY=… interlock serve --listen 0.0.0.0:8081 --config interlock.toml";

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ListFlags {
    /// List at most N items
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgument {
    /// Id, as `list` prints it
    pub(crate) id: String,
}

/// Accepts the names of these values; help and completions list them.
pub(crate) fn one_of<T, const N: usize>(
    values: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(values.map(name)).map(move |chosen| {
        let found = values.into_iter().find(|value| name(*value) == chosen);
        found.expect("the parser accepts only these names")
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn connection_flags_may_stand_anywhere() {
        for line in [
            "interlock --json --gateway http://g run get r",
            "interlock run --json get --gateway http://g r",
            "interlock run get r --gateway http://g --json",
        ] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert!(arguments.connection.json, "{line}");
            assert_eq!(arguments.connection.gateway.as_deref(), Some("http://g"), "{line}");
        }
    }

    #[test]
    fn a_verdict_is_one_of_two() {
        let parses = |line: &str| Arguments::try_parse_from(line.split(' ')).is_ok();
        assert!(parses("interlock approval job r:s@1 --approve"));
        assert!(parses("interlock approval job r:s@1 --reject --reason no"));
        assert!(!parses("interlock approval job r:s@1"));
        assert!(!parses("interlock approval job r:s@1 --approve --reject"));
    }

    #[test]
    fn a_lock_mode_is_one_of_two() {
        let parses = |line: &str| Arguments::try_parse_from(line.split(' ')).is_ok();
        assert!(parses("interlock locks acquire r --mode shared"));
        assert!(!parses("interlock locks acquire r --mode both"));
    }

    #[test]
    fn a_workers_command_keeps_its_own_flags() {
        let line = "interlock worker run --topic a --topic b -- sh -c --json";
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        assert!(!arguments.connection.json);
    }
}
