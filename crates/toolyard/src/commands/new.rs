//! `toolyard new tool --kind KIND NAME`: a working tool with schema, example and so a passing test.

use super::init::write_new;
use crate::output;
use crate::wiring::GlobalOptions;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};

/// Make a new tool
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: NewCommand,
}

#[derive(clap::Subcommand)]
enum NewCommand {
    /// A tool file with its script, schemas and an example that passes
    Tool {
        /// What it is made of
        #[arg(long, value_enum)]
        kind: Kind,
        /// Its name, for example word_count, or text.word_count to choose the module
        name: String,
    },
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    Python,
    Cli,
    Node,
    Php,
    Http,
    Process,
    Binary,
    PythonUvScript,
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../templates/new/", $name))
    };
}

impl Kind {
    /// File names (NAME stands for the tool) and contents.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        const INPUT: (&str, &str) = ("NAME.input.schema.json", template!("input.schema.json"));
        const OUTPUT: (&str, &str) = ("NAME.output.schema.json", template!("output.schema.json"));
        match self {
            Kind::Python => &[
                ("NAME.tool.yaml", template!("python.tool.yaml")),
                ("NAME.py", template!("python.py")),
                INPUT,
                OUTPUT,
            ],
            Kind::Cli => &[
                ("NAME.tool.yaml", template!("cli.tool.yaml")),
                ("NAME.sh", template!("cli.sh")),
                INPUT,
                OUTPUT,
            ],
            Kind::Node => &[
                ("NAME.tool.yaml", template!("node.tool.yaml")),
                ("NAME.mjs", template!("node.mjs")),
                INPUT,
                OUTPUT,
            ],
            Kind::Php => &[
                ("NAME.tool.yaml", template!("php.tool.yaml")),
                ("NAME.php", template!("php.php")),
                INPUT,
                OUTPUT,
            ],
            Kind::Http => &[("NAME.tool.yaml", template!("http.tool.yaml"))],
            Kind::Process => {
                &[("NAME/tool.json", template!("process.json")), ("NAME/NAME.py", template!("line.py"))]
            }
            Kind::Binary => {
                &[("NAME/tool.json", template!("binary.json")), ("NAME/NAME.c", template!("binary.c"))]
            }
            Kind::PythonUvScript => {
                &[("NAME/tool.json", template!("uv.json")), ("NAME/NAME.py", template!("uv.py"))]
            }
        }
    }
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let NewCommand::Tool { kind, name } = args.command;
    let root = global.yard.unwrap_or_else(|| PathBuf::from("."));
    let (module, tool) = name.rsplit_once('.').unwrap_or(("tools", name.as_str()));
    check_name(&name, module, tool)?;
    let folder =
        if module == "tools" { "tools".to_owned() } else { format!("tools/{}", module.replace('.', "/")) };
    let id = id(kind, module, tool);
    let files: Vec<(String, String)> = kind
        .files()
        .iter()
        .map(|(file, text)| {
            (format!("{folder}/{}", file.replace("NAME", tool)), fill(text, &folder, &id, tool))
        })
        .collect();
    if let Some((taken, _)) = files.iter().find(|(path, _)| root.join(path).exists()) {
        let message = format!("{taken} is there already; nothing was made");
        return Err(Error::new(ErrorKind::InvalidInput, message).hint("choose another name"));
    }
    for (path, text) in &files {
        write_new(&root.join(path), text)?;
        output::note(format!("made {path}"));
    }
    if kind == Kind::Binary {
        compile(&root.join(format!("{folder}/{tool}")), tool)?;
    }
    output::line(format!("try: toolyard test {id} --yard {}", root.display()));
    Ok(0)
}

fn check_name(name: &str, module: &str, tool: &str) -> Result<(), Error> {
    let good = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if module.split('.').all(good)
        && good(tool)
        && tool.len() <= 64
        && !tool.starts_with(|c: char| c.is_ascii_digit())
    {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, format!("'{name}' is not a name for a tool"))
        .hint("use a-z, 0-9 and _, for example word_count or text.word_count"))
}

/// The folder names the module of a tool file in it, so that the short name is enough; a manifest has a folder of
/// its own, and nested modules must be spelled out.
fn id(kind: Kind, module: &str, tool: &str) -> String {
    let manifest = matches!(kind, Kind::Process | Kind::Binary | Kind::PythonUvScript);
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
            format!("{} was made, but no C compiler (cc) could build it", source.display()),
        )
        .hint(format!("build it yourself: cc -O2 -o {} {}", program.display(), source.display()))),
    }
}
