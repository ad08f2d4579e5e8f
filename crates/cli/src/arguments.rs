//! What may be typed. Each noun's own arguments stand in its file under `commands`.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::{
    approval, dispatch_policy, dlq, doctor, drill, jobs, keys, lab, limits, locks, retry_policy, rollout,
    run, why, worker, workers, workflow,
};
use crate::config::ServeFlags;

const EXAMPLES: &str = "\
Examples:
  interlock serve                                    # the server; keeps all in ./interlock-data
  interlock workflow create --file build.json        # prints the workflow's id
  interlock run start build --input '{\"n\": 1}'       # prints the run's id
  interlock worker run --topic build -- ./build.sh   # input on stdin, output from stdout
  interlock run watch 0192f0c1-…                     # until it ends

Exit codes: 0 done; 1 refused or failed; 2 wrong usage; 3 gateway out of reach.
Environment: INTERLOCK_GATEWAY, INTERLOCK_API_KEY, INTERLOCK_TENANT_ID (CORDUM_… also works).";

/// Runs of AI-agent workflows: who may start, who may write, who goes next.
#[derive(Debug, Parser)]
#[command(name = "interlock", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const GATEWAY_HELP: &str = "Where the gateway is [default: http://127.0.0.1:8081]";

/// How to reach the gateway. These may stand anywhere.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConnectionFlags {
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection", help = GATEWAY_HELP)]
    pub(crate) gateway: Option<String>,
    /// Better given by `INTERLOCK_API_KEY`, which no list of processes shows
    #[arg(long, global = true, value_name = "KEY", help_heading = "Connection")]
    pub(crate) api_key: Option<String>,
    /// For keys that cover more than one tenant; also `INTERLOCK_TENANT_ID`
    #[arg(long, global = true, value_name = "TENANT", help_heading = "Connection")]
    pub(crate) tenant: Option<String>,
    /// Print the server's JSON
    #[arg(long, global = true, help_heading = "Connection")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeFlags>),
    /// Save, show and delete workflows
    #[command(subcommand, visible_alias = "workflows")]
    Workflow(workflow::Workflow),
    /// Start, watch and end runs
    #[command(subcommand, visible_alias = "runs")]
    Run(run::Run),
    /// Answer the questions that runs wait for
    #[command(subcommand, visible_alias = "approvals")]
    Approval(approval::Approval),
    /// Work: run a command for each job
    #[command(subcommand)]
    Worker(worker::Worker),
    /// How many runs a tenant may have at once
    #[command(subcommand)]
    Limits(limits::Limits),
    /// Take, keep and give back locks; see who holds them
    #[command(subcommand, visible_alias = "lock")]
    Locks(locks::Locks),
    /// How contenders wait for a lock: look, change, take back, explain
    #[command(subcommand, after_help = retry_policy::EXAMPLES)]
    RetryPolicy(retry_policy::RetryPolicyCommand),
    /// Try a policy on some of the runs; a bad one ends itself
    #[command(subcommand, after_help = rollout::EXAMPLES)]
    Rollout(rollout::RolloutCommand),
    /// API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Who works here
    #[command(subcommand)]
    Workers(workers::Workers),
    /// Single dispatches of steps
    #[command(subcommand, visible_alias = "job")]
    Jobs(jobs::Jobs),
    /// What must be decided before a job may go to a worker: look, explain
    #[command(subcommand, after_help = dispatch_policy::EXAMPLES)]
    DispatchPolicy(dispatch_policy::DispatchPolicy),
    /// Jobs that were given up on
    #[command(subcommand)]
    Dlq(dlq::Dlq),
    /// Find what must not be, and mend it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// Pause a holder past its lease, and show that its late writes are refused
    #[command(after_help = drill::EXAMPLES)]
    Drill(drill::Drill),
    #[command(hide = true)]
    DrillParty(drill::DrillParty),
    /// Measure contention: strategies and retry policies side by side
    #[command(after_help = lab::EXAMPLES)]
    Lab(lab::Lab),
    /// What a run, a job, a lock or a start waits for, and who has that
    #[command(after_help = why::EXAMPLES)]
    Why(why::Why),
    /// What the server says of itself
    Status,
    /// A script that teaches your shell these commands
    #[command(after_help = "Example: interlock completions bash > /etc/bash_completion.d/interlock")]
    Completions { shell: Shell },
}

const SERVE_EXAMPLES: &str = "\
Each flag is also a variable (--poll-ms is INTERLOCK_POLL_MS) and a key of the file (poll_ms).
A flag wins over a variable, a variable over the file.

Examples:
  interlock serve --listen 127.0.0.1:8081 --data ./interlock-data
  INTERLOCK_ADMIN_KEY=… interlock serve --listen 0.0.0.0:8081 --config interlock.toml";

/// How many items a list shows.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Listing {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
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
    fn a_workers_command_keeps_its_own_flags() {
        let line = "interlock worker run --topic a --topic b -- sh -c --json";
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        assert!(!arguments.connection.json);
    }
}
