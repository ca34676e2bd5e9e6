//! `toolyard secret set|list|rm`: stores, lists and removes the secrets of tools.

use crate::cli::usage_error;
use crate::input;
use crate::output;
use crate::state_folder;
use crate::terminal;
use crate::wiring::{GlobalOptions, Yard};
use std::io::IsTerminal;
use std::path::Path;
use toolyard_formats::json;
use toolyard_protocol::{Error, ErrorKind, SecretName};
use toolyard_runtimes::secrets::Source;

/// Store, list and remove the secrets that tools declare
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Store a secret; its value is read from stdin or prompted for, never taken from the command line
    Set {
        /// The name, as in "secret:NAME" in a tool's file
        name: String,
    },
    /// List the names and their sources, never the values
    List,
    /// Remove a stored secret
    Rm { name: String },
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    match args.command {
        Command::Set { name } => set(&parse(&name), &global),
        Command::List => list(&Yard::look(&global)?, global.json),
        Command::Rm { name } => remove(&Yard::look(&global)?, &parse(&name)),
    }
}

fn parse(name: &str) -> SecretName {
    // The message does not repeat the name: users may have pasted the value in its place.
    SecretName::parse(name).unwrap_or_else(|| {
        usage_error(
            "this is not a valid name of a secret: use 1 to 64 letters, digits, '_', '.' and '-', the first a \
             letter, a digit or '_'",
        )
    })
}

fn set(name: &SecretName, global: &GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::look(global)?;
    let value = read_value(name)?;
    state_folder::create(&yard.root, &yard.state)?;
    yard.loader.secrets.set(name, &value)?;
    output::note(format!("stored the secret '{name}'"));
    Ok(0)
}

/// Removes one newline at the end: shells add it, and it is not part of the value.
fn read_value(name: &SecretName) -> Result<String, Error> {
    const MAX: u64 = 64 << 10;
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::InvalidInput, format!("the value cannot be read: {error}"))
    };
    let mut value = if std::io::stdin().is_terminal() {
        terminal::read_hidden_line(&format!("value of '{name}' (not shown): ")).map_err(failed)?
    } else {
        String::from_utf8(input::read(Path::new("-"), MAX)?.into())
            .map_err(|_| Error::new(ErrorKind::InvalidInput, "the value is not UTF-8"))?
    };
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

fn list(yard: &Yard, as_json: bool) -> Result<u8, Error> {
    let secrets = yard.loader.secrets.list()?;
    let source = |source| match source {
        Source::Environment => "environment",
        Source::Store => "store",
        Source::Keyring => "kernel keyring",
    };
    if as_json {
        output::data(json::objects(&secrets, |object, secret| {
            object.text("name", &secret.name).text("source", source(secret.source));
            object.text_or_null("problem", secret.problem.as_deref());
        }));
    } else if secrets.is_empty() {
        output::note("no secrets; 'toolyard secret set NAME' stores one");
    } else {
        let header = ["NAME", "FROM", ""].map(str::to_owned).to_vec();
        let rows = secrets.iter().map(|secret| {
            let problem = secret.problem.clone().unwrap_or_default();
            vec![secret.name.clone(), source(secret.source).to_owned(), problem]
        });
        output::table(&std::iter::once(header).chain(rows).collect::<Vec<_>>());
    }
    Ok(0)
}

fn remove(yard: &Yard, name: &SecretName) -> Result<u8, Error> {
    if !yard.loader.secrets.remove(name)? {
        return Err(Error::new(ErrorKind::ResourceNotFound, format!("no secret '{name}' is stored"))
            .hint("'toolyard secret list' shows the stored names"));
    }
    output::note(format!("removed the secret '{name}'"));
    Ok(0)
}
