//! The `toolyard` binary: reads the command line and hands over to one file per command.

mod cli;
mod commands;
mod config;
mod find_yard;
mod input;
mod live_config;
mod log;
mod memory;
mod output;
mod private_file;
mod progress;
mod reload;
mod remote;
mod servers;
mod state;
mod state_folder;
mod terminal;
mod terminal_caller;
mod token;
mod wiring;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;

/// Measured with callgrind: the system allocator took an eighth of the instructions of an MCP call.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    forbid_core_dumps();
    let cli = cli::Cli::parse();
    let json = cli.json;
    let code = match cli::dispatch(cli) {
        Ok(code) => code,
        Err(error) => output::report(&error, json),
    };
    ExitCode::from(code)
}

/// A crash must not write secrets to disk; child processes inherit the limit. The limit is 1, not 0, because
/// only at 1 does the kernel skip a `core_pattern` pipe handler too.
fn forbid_core_dumps() {
    let most = Some(getrlimit(Resource::Core).maximum.map_or(1, |most| most.min(1)));
    // Lowering a limit can't fail.
    let _ = setrlimit(Resource::Core, Rlimit { current: most, maximum: most });
}
