//! Finds tool files below `tools/`, in sorted order, within bounds.

use super::{file_problem, warning};
use std::path::{Path, PathBuf};
use toolyard_engine::SourceProblem;

const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// `*.tool.yaml`.
    Toolpack,
    /// `tool.json`.
    Manifest,
}

pub struct ToolFile {
    /// Relative to the yard.
    pub path: PathBuf,
    /// The path as text, for messages.
    pub source: String,
    pub format: FileFormat,
}

#[derive(Default)]
pub struct FoundFiles {
    pub files: Vec<ToolFile>,
    /// Every folder that was searched.
    pub folders: Vec<PathBuf>,
    pub problems: Vec<SourceProblem>,
}

/// Sorted by path, so that the winner of a name collision does not depend on the file system.
pub fn tool_files(root: &Path) -> FoundFiles {
    let mut found = FoundFiles::default();
    let tools = Path::new("tools");
    match std::fs::symlink_metadata(root.join(tools)) {
        Ok(meta) if meta.is_symlink() => {
            found
                .problems
                .push(file_problem("tools", "is a symbolic link, which is not followed".to_owned()));
        }
        Ok(_) => visit(root, tools, 0, &mut found),
        Err(_) => {}
    }
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    if found.files.len() > MAX_FILES {
        found.files.truncate(MAX_FILES);
        let message =
            format!("there are more than {MAX_FILES} tool files; only the first {MAX_FILES} are loaded");
        found.problems.push(file_problem("tools", message));
    }
    found
}

fn visit(root: &Path, folder: &Path, depth: usize, found: &mut FoundFiles) {
    let source = folder.to_string_lossy().into_owned();
    let entries = match std::fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) => {
            return found.problems.push(file_problem(&source, format!("the folder cannot be read: {error}")));
        }
    };
    found.folders.push(folder.to_owned());
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let message = format!("the name {:?} is not UTF-8; it is left out", entry.file_name());
            found.problems.push(file_problem(&source, message));
            continue;
        };
        // Links are not followed: a link may point outside the yard or form a cycle.
        let Ok(kind) = entry.file_type() else { continue };
        let path = folder.join(name);
        if kind.is_dir() && !is_ignored(name) {
            if depth == MAX_DEPTH {
                let message = format!("folders deeper than {MAX_DEPTH} levels are left out");
                found.problems.push(file_problem(&path.to_string_lossy(), message));
            } else {
                visit(root, &path, depth + 1, found);
            }
        } else if let Some(format) = format_of(name).filter(|_| found.files.len() <= MAX_FILES) {
            let source = path.to_string_lossy().into_owned();
            if kind.is_file() {
                found.files.push(ToolFile { source, path, format });
            } else {
                let what = if kind.is_symlink() { "a symbolic link" } else { "not a regular file" };
                found
                    .problems
                    .push(warning(&source, format!("is {what}; tool files are read only as files")));
            }
        } else if kind.is_symlink() && !is_ignored(name) && root.join(&path).is_dir() {
            let message = "is a symbolic link to a folder, which is not searched for tools".to_owned();
            found.problems.push(warning(&path.to_string_lossy(), message));
        }
    }
}

pub fn format_of(name: &str) -> Option<FileFormat> {
    if name.starts_with('.') {
        return None;
    }
    if name.ends_with(".tool.yaml") || name.ends_with(".tool.yml") {
        return Some(FileFormat::Toolpack);
    }
    (name == "tool.json").then_some(FileFormat::Manifest)
}

/// Hidden names, caches and third-party code.
pub fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "node_modules" | "__pycache__" | "target" | "venv")
}
