//! `toolyard new tool --kind KIND NAME`: a working tool with schema, example and so a passing test.

use super::init::write_new;
use crate::output;
use crate::wiring::GlobalOptions;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_yard::kinds::{FileFormat, KINDS, Kind};

/// Create a new tool
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: NewCommand,
}

#[derive(clap::Subcommand)]
enum NewCommand {
    /// A tool file with its script, schemas and an example that passes
    Tool {
        /// The kind of tool
        #[arg(long, value_parser = PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name)))]
        kind: String,
        /// Its name, for example word_count, or text.word_count to choose the module
        #[arg(value_parser = parse_name)]
        name: ToolPath,
    },
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let NewCommand::Tool { kind, name: ToolPath { module, tool } } = args.command;
    let unknown = || Error::new(ErrorKind::InvalidInput, format!("there is no kind '{kind}'"));
    let kind = KINDS.iter().find(|known| known.name == kind).ok_or_else(unknown)?;
    // The first tool makes the current folder a yard.
    let found = if global.yard.is_some() { None } else { global.root().ok() };
    let root = found.or(global.yard.clone()).unwrap_or_else(|| PathBuf::from("."));
    let (module, tool) = (module.as_str(), tool.as_str());
    let folder =
        if module == "tools" { "tools".to_owned() } else { format!("tools/{}", module.replace('.', "/")) };
    let id = id(kind, module, tool);
    let files: Vec<(String, String)> = kind
        .template
        .iter()
        .map(|(file, text)| {
            (format!("{folder}/{}", file.replace("NAME", tool)), fill(text, &folder, &id, tool))
        })
        .collect();
    // Also a link that leads nowhere.
    if let Some((taken, _)) = files.iter().find(|(path, _)| root.join(path).symlink_metadata().is_ok()) {
        let message = format!("{taken} exists already; nothing was created");
        return Err(Error::new(ErrorKind::InvalidInput, message).hint("choose another name"));
    }
    for (path, text) in &files {
        write_new(&root, path, text)?;
        output::note(format!("created {path}"));
    }
    if kind.name == "binary" {
        compile(&root.join(format!("{folder}/{tool}")), tool)?;
    }
    output::line(format!("try: toolyard test {id}{}", global.yard_option()));
    Ok(0)
}

/// The name of a tool and of its module.
#[derive(Clone)]
struct ToolPath {
    module: String,
    tool: String,
}

fn parse_name(name: &str) -> Result<ToolPath, String> {
    let (module, tool) = name.rsplit_once('.').unwrap_or(("tools", name));
    let good = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if module.split('.').all(good)
        && good(tool)
        && tool.len() <= 64
        && !tool.starts_with(|c: char| c.is_ascii_digit())
    {
        return Ok(ToolPath { module: module.to_owned(), tool: tool.to_owned() });
    }
    Err("use a-z, 0-9 and _, for example word_count or text.word_count".to_owned())
}

/// The folder names the module of a tool file in it, so that the short name is enough; a manifest has a folder of
/// its own, and nested modules must be spelled out.
fn id(kind: &Kind, module: &str, tool: &str) -> String {
    let manifest = kind.format == FileFormat::Manifest;
    if module == "tools" || (!manifest && !module.contains('.')) {
        tool.to_owned()
    } else {
        format!("{module}.{tool}")
    }
}

fn fill(text: &str, folder: &str, id: &str, tool: &str) -> String {
    let dotted = folder.replace('/', ".");
    text.replace("@ID@", id).replace("@TOOL@", tool).replace("@FOLDER@", folder).replace("@MODULE@", &dotted)
}

/// A native program must be built before it is a tool.
fn compile(folder: &Path, tool: &str) -> Result<(), Error> {
    let (source, program) = (folder.join(format!("{tool}.c")), folder.join(tool));
    let built = std::process::Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).status();
    match built {
        Ok(status) if status.success() => {
            output::note(format!("built {}", program.display()));
            Ok(())
        }
        _ => Err(Error::new(
            ErrorKind::FileNotFound,
            format!("{} was created, but no C compiler (cc) could build it", source.display()),
        )
        .hint(format!("build it yourself: cc -O2 -o {} {}", program.display(), source.display()))),
    }
}
