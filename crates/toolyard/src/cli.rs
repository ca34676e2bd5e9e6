//! The command line: one variant per command, each defined in its own file.

use crate::commands::{
    audit, batch, call, check, completions, doctor, init, jobs, list, new, prepare, prompt, resource, secret,
    serve, show, state, stdio, test,
};
use crate::wiring::Place;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use toolyard_protocol::{Error, ErrorKind};

/// Tools for AI agents: drop a file in a folder and it is a tool.
#[derive(Parser)]
#[command(name = "toolyard", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The yard: a folder with tools/ and, if you like, toolyard.toml. Default: the current folder
    #[arg(long, global = true, value_name = "DIR")]
    yard: Option<PathBuf>,
    /// A running server to talk to instead of a yard (call, list, jobs, batch), such as http://127.0.0.1:3333
    #[arg(long, global = true, value_name = "URL", conflicts_with = "yard")]
    url: Option<String>,
    /// Print JSON for machines
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
    fn speaks_to_servers(&self) -> bool {
        matches!(self, Command::Call(_) | Command::List(_) | Command::Jobs(_) | Command::Batch(_))
    }
}

/// Runs the command and gives its exit code.
pub fn dispatch(cli: Cli) -> Result<u8, Error> {
    let place = Place { yard: cli.yard, url: cli.url, json: cli.json };
    if place.url.is_some() && !cli.command.speaks_to_servers() {
        return Err(Error::new(ErrorKind::InvalidInput, "--url works with call, list, jobs and batch only"));
    }
    match cli.command {
        Command::Init(args) => init::run(args, place),
        Command::New(args) => new::run(args, place),
        Command::List(args) => list::run(args, place),
        Command::Show(args) => show::run(args, place),
        Command::Call(args) => call::run(args, place),
        Command::Batch(args) => batch::run(args, place),
        Command::Jobs(args) => jobs::run(args, place),
        Command::Resource(args) => resource::run(args, place),
        Command::Check(args) => check::run(args, place),
        Command::Prompt(args) => prompt::run(args, place),
        Command::Test(args) => test::run(args, place),
        Command::Prepare(args) => prepare::run(args, place),
        Command::Secret(args) => secret::run(args, place),
        Command::Serve(args) => serve::run(args, place),
        Command::Stdio(args) => stdio::run(args, place),
        Command::Audit(args) => audit::run(args, place),
        Command::State(args) => state::run(args, place),
        Command::Doctor(args) => doctor::run(args, place),
        Command::Completions(args) => completions::run(args),
    }
}
