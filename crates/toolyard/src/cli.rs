//! The command line: one variant per command, each defined in its own file.

use crate::commands::{
    audit, batch, call, check, completions, doctor, init, job, list, new, prepare, prompt, resource, secret,
    serve, show, state, stdio, test, token,
};
use crate::remote::parse_url;
use crate::wiring::GlobalOptions;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use reqwest::Url;
use std::path::PathBuf;
use toolyard_protocol::Error;

/// Tools for AI agents: drop a file in a folder and it is a tool.
#[derive(Parser)]
#[command(name = "toolyard", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The yard: a folder with tools/ and an optional toolyard.toml. Default: TOOLYARD_YARD, else the
    /// nearest yard from the current folder upwards
    #[arg(long, global = true, value_name = "DIR")]
    yard: Option<PathBuf>,
    /// Use a running server instead of a yard (list, show, call, batch, job, prompt, resource), such as
    /// http://127.0.0.1:3333
    #[arg(long, global = true, value_name = "URL", value_parser = parse_url)]
    url: Option<Url>,
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
    #[command(visible_alias = "jobs")]
    Job(job::Args),
    #[command(visible_alias = "resources")]
    Resource(resource::Args),
    Check(check::Args),
    #[command(visible_alias = "prompts")]
    Prompt(prompt::Args),
    Test(test::Args),
    Prepare(prepare::Args),
    #[command(visible_alias = "secrets")]
    Secret(secret::Args),
    Token(token::Args),
    Serve(serve::Args),
    Stdio(stdio::Args),
    Audit(audit::Args),
    State(state::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

impl Command {
    fn supports_url(&self) -> bool {
        use Command::*;
        matches!(self, List(_) | Show(_) | Call(_) | Batch(_) | Job(_) | Prompt(_) | Resource(_))
    }

    /// The yard as an argument of the command.
    fn take_dir(&mut self) -> Option<PathBuf> {
        match self {
            Command::Init(args) => args.dir.take(),
            Command::Serve(args) => args.dir.take(),
            Command::Stdio(args) => args.dir.take(),
            _ => None,
        }
    }
}

/// Runs the command and returns its exit code.
pub fn dispatch(mut cli: Cli) -> Result<u8, Error> {
    if cli.url.is_some() && !cli.command.supports_url() {
        usage_error(
            "--url works with list, show, call, batch, job, prompt and resource; this command works on the \
             yard's own files and state, so run it where the yard is, with --yard",
        );
    }
    let dir = cli.command.take_dir();
    if cli.yard.is_some() && (cli.url.is_some() || dir.is_some()) {
        let other = if dir.is_some() { "the folder given as argument" } else { "--url" };
        usage_error(&format!("--yard cannot be used with {other}"));
    }
    // An empty variable counts as none.
    let from_environment =
        || std::env::var_os("TOOLYARD_YARD").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let yard = dir.or(cli.yard).or_else(from_environment);
    let global = GlobalOptions { yard, url: cli.url, json: cli.json };
    match cli.command {
        Command::Init(_) => init::run(global),
        Command::New(args) => new::run(args, global),
        Command::List(args) => list::run(args, global),
        Command::Show(args) => show::run(args, global),
        Command::Call(args) => call::run(args, global),
        Command::Batch(args) => batch::run(args, global),
        Command::Job(args) => job::run(args, global),
        Command::Resource(args) => resource::run(args, global),
        Command::Check(args) => check::run(args, global),
        Command::Prompt(args) => prompt::run(args, global),
        Command::Test(args) => test::run(args, global),
        Command::Prepare(args) => prepare::run(args, global),
        Command::Secret(args) => secret::run(args, global),
        Command::Token(args) => token::run(args, global),
        Command::Serve(args) => serve::run(args, global),
        Command::Stdio(args) => stdio::run(args, global),
        Command::Audit(args) => audit::run(args, global),
        Command::State(args) => state::run(args, global),
        Command::Doctor(args) => doctor::run(args, global),
        Command::Completions(args) => completions::run(args),
    }
}

/// Reports a wrong command line as the parser does: on stderr, with and without `--json`, and with exit code 2.
pub fn usage_error(message: &str) -> ! {
    Cli::command().error(ErrorKind::ArgumentConflict, message).exit()
}
