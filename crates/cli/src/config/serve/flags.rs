//! The flags of `serve`: those of the settings, the file, and how to print one.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::settings::{SETTINGS, Setting};
use super::value::Secret;

#[derive(Debug, Clone, Default)]
pub(crate) struct ServeFlags {
    pub(super) config: Option<PathBuf>,
    pub(crate) print_config: bool,
    /// Settings by their keys.
    pub(super) given: Vec<(&'static str, Secret)>,
}

/// The names of the flags: clap keeps only static ones.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| SETTINGS.iter().map(Setting::flag).collect());

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        let path = clap::value_parser!(PathBuf);
        let config = Arg::new("config").long("config").value_name("FILE").value_parser(path);
        let print = Arg::new("print-config").long("print-config").action(ArgAction::SetTrue);
        command
            .args(SETTINGS.iter().zip(&*NAMES).map(argument))
            .arg(config.help("TOML file with any of the settings"))
            .arg(print.help("Print a file with all settings, their defaults and what they do, and exit"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument((setting, name): (&Setting, &'static String)) -> Arg {
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    Arg::new(setting.key)
        .long(name.as_str())
        .help(format!("{}{default}", setting.help))
        .value_name(setting.placeholder.unwrap_or("VALUE"))
        .hide(setting.placeholder.is_none())
        .value_parser(clap::builder::NonEmptyStringValueParser::new())
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one("config").cloned();
        self.print_config = matches.get_flag("print-config");
        let text =
            |setting: &Setting| Some((setting.key, Secret(matches.get_one::<String>(setting.key)?.clone())));
        self.given = SETTINGS.iter().filter_map(text).collect();
        Ok(())
    }
}
