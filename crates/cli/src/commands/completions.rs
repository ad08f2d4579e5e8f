//! `interlock completions`: generate shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::exit::Result;
use crate::output::raw;

pub(super) fn run(shell: Shell) -> Result<()> {
    // Generated in memory first: the generator panics when the pipe that it writes to is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "interlock", &mut script);
    raw(&script)
}
