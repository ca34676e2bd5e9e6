//! The command line: one variant per command, each defined in its own file.

use crate::commands::{
    audit, batch, call, check, completions, doctor, init, jobs, list, new, prepare, prompt, resource, secret,
    serve, show, state, stdio, test,
};
use crate::wiring::GlobalOptions;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use toolyard_protocol::{Error, ErrorKind};

/// Tools for AI agents: drop a file in a folder and it is a tool.
#[derive(Parser)]
#[command(name = "toolyard", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The yard: a folder with tools/ and an optional toolyard.toml. Default: the current folder
    #[arg(long, global = true, value_name = "DIR")]
    yard: Option<PathBuf>,
    /// Use a running server instead of a yard (call, list, jobs, batch), such as http://127.0.0.1:3333
    #[arg(long, global = true, value_name = "URL", conflicts_with = "yard")]
    url: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    New(new::Args),
    List(list::Args),
    Show(show::Args),
    Call(call::Args),
    Batch(batch::Args),
    Jobs(jobs::Args),
    Resource(resource::Args),
    Check(check::Args),
    Prompt(prompt::Args),
    Test(test::Args),
    Prepare(prepare::Args),
    Secret(secret::Args),
    Serve(serve::Args),
    Stdio(stdio::Args),
    Audit(audit::Args),
    State(state::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

impl Command {
    fn supports_url(&self) -> bool {
        matches!(self, Command::Call(_) | Command::List(_) | Command::Jobs(_) | Command::Batch(_))
    }
}

/// Runs the command and returns its exit code.
pub fn dispatch(cli: Cli) -> Result<u8, Error> {
    let global = GlobalOptions { yard: cli.yard, url: cli.url, json: cli.json };
    if global.url.is_some() && !cli.command.supports_url() {
        return Err(Error::new(ErrorKind::InvalidInput, "--url works with call, list, jobs and batch only"));
    }
    match cli.command {
        Command::Init(args) => init::run(args, global),
        Command::New(args) => new::run(args, global),
        Command::List(args) => list::run(args, global),
        Command::Show(args) => show::run(args, global),
        Command::Call(args) => call::run(args, global),
        Command::Batch(args) => batch::run(args, global),
        Command::Jobs(args) => jobs::run(args, global),
        Command::Resource(args) => resource::run(args, global),
        Command::Check(args) => check::run(args, global),
        Command::Prompt(args) => prompt::run(args, global),
        Command::Test(args) => test::run(args, global),
        Command::Prepare(args) => prepare::run(args, global),
        Command::Secret(args) => secret::run(args, global),
        Command::Serve(args) => serve::run(args, global),
        Command::Stdio(args) => stdio::run(args, global),
        Command::Audit(args) => audit::run(args, global),
        Command::State(args) => state::run(args, global),
        Command::Doctor(args) => doctor::run(args, global),
        Command::Completions(args) => completions::run(args),
    }
}
