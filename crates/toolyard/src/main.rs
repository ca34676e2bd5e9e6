//! The `toolyard` binary: reads the command line and hands over to one file per command.

mod cli;
mod commands;
mod config;
mod output;
mod progress;
mod reload;
mod remote;
mod state;
mod terminal;
mod wiring;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let json = cli.json;
    let code = match cli::dispatch(cli) {
        Ok(code) => code,
        Err(error) => output::report(&error, json),
    };
    ExitCode::from(code)
}
