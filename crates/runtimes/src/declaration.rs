//! Writes the `sandbox` field of a tool file: YAML on one line for a toolpack, JSON for a manifest.

use crate::sandbox_builder::{NetworkPolicy, SandboxRequest};
use std::path::Path;

/// What is declared, and what has been added to it. The default is a file without the field.
#[derive(Default)]
pub struct Declaration {
    read: Vec<String>,
    write: Vec<String>,
    hosts: Vec<String>,
    /// `network: allow`, which no host adds to.
    allows_network: bool,
    pub tmp: Option<u64>,
    has_new_paths: bool,
    has_new_hosts: bool,
    /// Whether the field exists already.
    is_declared: bool,
}

impl Declaration {
    /// Starts with what the file declares.
    pub fn of(request: &SandboxRequest) -> Declaration {
        let texts =
            |paths: &[std::path::PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        let hosts = match &request.network {
            NetworkPolicy::Hosts(rules) => rules.entries().collect(),
            _ => Vec::new(),
        };
        Declaration {
            read: texts(&request.read),
            write: texts(&request.write),
            hosts,
            allows_network: matches!(request.network, NetworkPolicy::Allow),
            is_declared: request.is_declared,
            ..Declaration::default()
        }
    }

    pub fn read(&mut self, path: &Path) {
        self.has_new_paths |= add(&mut self.read, path.display().to_string());
    }

    pub fn write(&mut self, path: &Path) {
        self.has_new_paths |= add(&mut self.write, path.display().to_string());
    }

    pub fn host(&mut self, host: &str) {
        self.has_new_hosts |= !self.allows_network && add(&mut self.hosts, host.to_owned());
    }

    /// The keys that changed, whole: with what was declared before. Empty if nothing changed.
    pub fn lines(&self, source: &str) -> String {
        let format = Format { is_json: source.ends_with(".json") };
        let mut keys = Vec::new();
        if self.has_new_hosts {
            keys.push(format.key("network", &format.list(&self.hosts)));
        }
        if self.has_new_paths {
            let lists = [("read", &self.read), ("write", &self.write)];
            let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
            let lists: Vec<String> = lists.map(|(name, list)| format.key(name, &format.list(list))).collect();
            keys.push(format.key("fs", &format!("{{{}}}", lists.join(", "))));
        }
        if let Some(tmp) = self.tmp {
            keys.push(format.key("tmp", &tmp.to_string()));
        }
        match (keys.is_empty(), self.is_declared) {
            (true, _) => String::new(),
            (false, true) => keys.join(", "),
            (false, false) => format.key("sandbox", &format!("{{{}}}", keys.join(", "))),
        }
    }
}

fn add(list: &mut Vec<String>, text: String) -> bool {
    let is_new = !list.contains(&text);
    if is_new {
        list.push(text);
    }
    is_new
}

struct Format {
    is_json: bool,
}

impl Format {
    fn key(&self, name: &str, value: &str) -> String {
        if self.is_json { format!("\"{name}\": {value}") } else { format!("{name}: {value}") }
    }

    fn list(&self, texts: &[String]) -> String {
        let texts: Vec<String> = texts.iter().map(|text| self.text(text)).collect();
        format!("[{}]", texts.join(", "))
    }

    /// Plain where YAML reads it back as the same text, else quoted as in JSON, which YAML reads too.
    fn text(&self, text: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let is_word =
            ["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
        match !self.is_json && begins && !is_word && text.chars().all(is_plain) {
            true => text.to_owned(),
            false => {
                let mut quoted = String::from("\"");
                for c in text.chars() {
                    match c {
                        '"' | '\\' => quoted.extend(['\\', c]),
                        c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
                        c => quoted.push(c),
                    }
                }
                quoted + "\""
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;
    use toolyard_sandbox::proxy::HostRules;

    #[test]
    fn what_changed_is_written_with_what_was_declared() {
        let mut declaration = Declaration::of(&SandboxRequest::pack());
        declaration.read(Path::new("/srv/models"));
        declaration.host("api.example.com");
        assert_eq!(
            declaration.lines("tools/x.tool.yaml"),
            "sandbox: {network: [api.example.com], fs: {read: [/srv/models]}}"
        );
        assert_eq!(
            declaration.lines("tools/x/tool.json"),
            r#""sandbox": {"network": ["api.example.com"], "fs": {"read": ["/srv/models"]}}"#
        );
        let rules = HostRules::parse(["*.example.org", "127.0.0.1:8080"]).unwrap();
        let request = SandboxRequest {
            is_declared: true,
            network: NetworkPolicy::Hosts(Arc::new(rules)),
            write: vec![PathBuf::from("data")],
            ..SandboxRequest::pack()
        };
        let mut declaration = Declaration::of(&request);
        declaration.read(Path::new("/srv/my \"models\""));
        declaration.write(Path::new("data"));
        declaration.host("api.example.com:8443");
        assert_eq!(
            declaration.lines("tools/x.tool.yaml"),
            r#"network: ["*.example.org", "127.0.0.1:8080", "api.example.com:8443"], fs: {read: ["/srv/my \"models\""], write: [data]}"#
        );
        assert_eq!(Declaration::of(&request).lines("x.tool.yaml"), "");
    }
}
