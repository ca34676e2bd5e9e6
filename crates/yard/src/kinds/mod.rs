//! The kinds of tools. A new kind is one file here and one line in a table.

mod binary;
mod cli;
mod http;
mod node;
mod php;
mod process;
mod python;
mod uv_script;

use crate::tools::ToolReader;
use std::path::PathBuf;
use toolyard_engine::Runner;
use toolyard_formats::doc::Fields;
use toolyard_protocol::Sandbox;

/// One kind of tool: its name, and how to read the fields that only it has.
pub trait Kind: Sync {
    fn name(&self) -> &'static str;

    /// `None` when something is wrong; the problems are in `fields`.
    fn read(&self, fields: &mut Fields<'_>, reader: &ToolReader<'_>) -> Option<Runnable>;
}

/// How a tool of a checked file runs.
pub struct Runnable {
    pub runner: Box<dyn Runner>,
    /// Files of the yard that the tool is made of, for its digest.
    pub files: Vec<PathBuf>,
    /// Why the tool cannot run on this machine as it is now.
    pub warnings: Vec<String>,
    /// What the owner should know, though nothing is wrong.
    pub notes: Vec<String>,
    pub sandbox: Sandbox,
}

/// `kind:` of `*.tool.yaml`.
pub const TOOLPACK_KINDS: &[&dyn Kind] = &[&cli::Cli, &python::Python, &node::Node, &php::Php, &http::Http];
/// `runtime` of `tool.json`.
pub const MANIFEST_KINDS: &[&dyn Kind] = &[&process::Process, &binary::Binary, &uv_script::UvScript];
