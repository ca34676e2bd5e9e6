//! Whether a folder is a yard.

use crate::{resources, tools};
use std::path::Path;

/// Whether the folder has a `toolyard.toml`, the state of a yard (`.toolyard/`), a tool file anywhere in
/// `tools/`, a list of prompts or a resource file. An empty folder is a yard only to those who say so.
pub fn is_yard(folder: &Path) -> bool {
    folder.join("toolyard.toml").is_file()
        || folder.join(".toolyard").is_dir()
        || folder.join("prompts/REGISTRY.yaml").is_file()
        || resources::has_files(folder)
        || !tools::walk::tool_files(folder).files.is_empty()
}
