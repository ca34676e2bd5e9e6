//! `toolyard init [DIR]`: creates a yard with an example tool.

use crate::output;
use crate::wiring::GlobalOptions;
use std::path::{Path, PathBuf};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::beneath::{self, ReadError};

/// Create a yard with an example tool
#[derive(clap::Args)]
pub struct Args {
    /// The folder to create. Default: the current folder
    pub dir: Option<PathBuf>,
}

/// Files of a new yard: path and content.
const FILES: &[(&str, &str)] = &[
    ("toolyard.toml", include_str!("../../templates/toolyard.toml")),
    (".gitignore", ".toolyard/\n"),
    ("tools/system/disk_free.tool.yaml", include_str!("../../templates/disk_free.tool.yaml")),
    ("tools/system/disk_free.sh", include_str!("../../templates/disk_free.sh")),
];

pub fn run(global: GlobalOptions) -> Result<u8, Error> {
    let root = global.yard.as_deref().unwrap_or(Path::new("."));
    let mut created = 0;
    for (path, content) in FILES {
        if write_new(root, path, content)? {
            created += 1;
            output::note(format!("created {path}"));
        } else {
            output::note(format!("skipped {path}: it already exists"));
        }
    }
    output::line(format!("{created} file(s) created; try: toolyard call disk_free{}", global.yard_option()));
    Ok(0)
}

/// Writes a new file of the yard, following no link in it; returns `false` and changes nothing when the path exists.
pub fn write_new(root: &Path, path: &str, content: &str) -> Result<bool, Error> {
    let failed = |error: std::io::Error| {
        let why = match ReadError::from(error) {
            ReadError::Io(error) => format!("cannot be written: {error}"),
            other => other.to_string(),
        };
        Error::new(ErrorKind::Unavailable, format!("{} {why}", root.join(path).display()))
    };
    match beneath::create_new(root, Path::new(path)) {
        Ok(mut file) => {
            std::io::Write::write_all(&mut file, content.as_bytes()).map(|()| true).map_err(failed)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}
