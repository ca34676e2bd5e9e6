//! `toolyard completions SHELL`: prints a completion script.

use crate::cli::Cli;
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;
use toolyard_protocol::Error;

/// Print a completion script for your shell
#[derive(clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: Args) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "toolyard", &mut script);
    output::data(script);
    Ok(0)
}
