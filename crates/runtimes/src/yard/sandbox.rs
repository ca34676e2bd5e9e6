//! What a tool's file says about its box: `sandbox:` in both formats, and seed 000's `policy`.

use super::Reading;
use crate::child::Level;
use crate::proxy::Rules;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_wire::doc::{Fields, Node, Place, Value};

/// The box a tool asks for. What it does not say is the default: no network, nothing writable but `/tmp`.
#[derive(Clone)]
pub struct Needs {
    /// The file has a `sandbox` field.
    pub written: bool,
    /// `sandbox: none`, written out.
    pub none: bool,
    pub network: NetworkRule,
    /// Paths beyond the yard and the interpreter; absolute, or relative to the yard.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub memory: Option<u64>,
    pub cpu: Option<Duration>,
    pub processes: Option<u64>,
    pub tmp_bytes: u64,
}

#[derive(Clone)]
pub enum NetworkRule {
    Deny,
    Allow,
    Hosts(Arc<Rules>),
}

impl Needs {
    /// A tool that says nothing.
    pub fn pack() -> Needs {
        Needs {
            written: false,
            none: false,
            network: NetworkRule::Deny,
            read: Vec::new(),
            write: Vec::new(),
            memory: Some(1 << 30),
            cpu: None,
            processes: Some(256),
            tmp_bytes: 64 << 20,
        }
    }

    /// Seed 000's policy block has smaller defaults.
    pub fn manifest() -> Needs {
        Needs { memory: Some(128 << 20), cpu: Some(Duration::from_secs(2)), ..Needs::pack() }
    }

    /// `sandbox: none`, or a map of what is needed.
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let Some(node) = fields.take("sandbox") else { return };
        self.written = true;
        match &node.value {
            Value::Text(text) if text == "none" => self.none = true,
            Value::Map(_) => match Fields::open(node, "sandbox") {
                Ok(mut map) => {
                    self.read_map(&mut map);
                    fields.close(map);
                }
                Err(problem) => fields.problems.push(problem),
            },
            _ => {
                let hint = "write sandbox: none, or sandbox: {network: [host], fs: {write: [data]}}";
                fields.problem(node.place, "'sandbox' must be 'none' or a map of what the tool needs", hint);
            }
        }
    }

    fn read_map(&mut self, map: &mut Fields<'_>) {
        if let Some(node) = map.take("network")
            && let Some(network) = network(map, node)
        {
            self.network = network;
        }
        if let Some(mut fs) = map.map("fs") {
            self.read.extend(paths(&mut fs, "read"));
            self.write.extend(paths(&mut fs, "write"));
            map.close(fs);
        }
        self.memory = map.integer("memory", 1 << 20..=1 << 40).or(self.memory);
        self.cpu = map.integer("cpuMs", 1..=86_400_000).map(Duration::from_millis).or(self.cpu);
        self.processes = map.integer("processes", 1..=100_000).or(self.processes);
        self.tmp_bytes = map.integer("tmp", 4096..=1 << 36).unwrap_or(self.tmp_bytes);
    }

    /// `policy: {memory_bytes, cpu_time_ms, network, fs: {preopen_tmp}}` of seed 000.
    pub fn read_policy(&mut self, policy: &mut Fields<'_>) {
        self.memory = policy.integer("memory_bytes", 1 << 20..=1 << 40).or(self.memory);
        self.cpu = policy.integer("cpu_time_ms", 1..=86_400_000).map(Duration::from_millis).or(self.cpu);
        if let Some(node) = policy.take("network")
            && let Some(network) = network(policy, node)
        {
            self.network = network;
        }
        if let Some(mut fs) = policy.map("fs") {
            if fs.bool("preopen_tmp") == Some(false) {
                // Programs expect the folder to be there; a page of room is as good as none.
                self.tmp_bytes = 4096;
            }
            policy.close(fs);
        }
    }

    /// Whether the level that this machine gives can hold what the file asks for; else why not.
    pub fn refusal(&self, level: Level) -> Option<String> {
        match (&self.network, level) {
            (_, Level::None) => {
                Some("this machine gives no sandbox (no namespaces and no Landlock)".to_owned())
            }
            (NetworkRule::Hosts(_), Level::Landlock) => {
                Some("a list of hosts needs a network namespace, which this machine refuses".to_owned())
            }
            _ => None,
        }
    }
}

impl Reading<'_> {
    /// The level of the tool's box on this machine, with what the owner should know; `None` when what the file asks
    /// for cannot be held here and the yard does not say that it may run all the same.
    pub fn level(&self, fields: &mut Fields<'_>) -> Option<(Level, Vec<String>)> {
        let needs = &self.common.needs;
        if needs.none {
            return Some((Level::None, vec!["it runs without a sandbox, as its file says".to_owned()]));
        }
        let machine = self.loader.launcher.sandbox_level().min(self.loader.walls.level);
        let Some(why) = needs.refusal(machine) else { return Some((machine, Vec::new())) };
        if self.loader.walls.unconfined == Unconfined::Run {
            let note = format!("it runs without the sandbox it asks for, as the yard says: {why}");
            return Some((Level::None, vec![note]));
        }
        let hint = "write sandbox: none in the file, or [sandbox] when_unavailable = \"run unconfined\" in toolyard.toml";
        fields.problem(fields.place, format!("the tool cannot be confined here: {why}"), hint);
        None
    }
}

/// What the yard as a whole says about boxes.
#[derive(Clone, Copy, Debug)]
pub struct Walls {
    /// The strongest level that is used, where the machine gives it.
    pub level: Level,
    pub unconfined: Unconfined,
}

impl Default for Walls {
    fn default() -> Walls {
        Walls { level: Level::Full, unconfined: Unconfined::Refuse }
    }
}

/// What happens to tools that this machine cannot confine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unconfined {
    #[default]
    Refuse,
    Run,
}

fn network<'n>(fields: &mut Fields<'n>, node: &'n Node) -> Option<NetworkRule> {
    match &node.value {
        Value::Text(text) if text == "deny" => Some(NetworkRule::Deny),
        Value::Text(text) if text == "allow" => Some(NetworkRule::Allow),
        Value::Text(text) if text == "egress-proxy" => {
            let hint = "write \"network\": [\"host\", \"host:port\"]";
            fields.problem(node.place, "'network' is 'egress-proxy', but names no hosts", hint);
            None
        }
        Value::List(_) => {
            let hosts = fields.texts_of(node, "network")?;
            let texts: Vec<&str> = hosts.iter().map(|(text, _)| *text).collect();
            match Rules::parse(texts) {
                Ok(rules) => Some(NetworkRule::Hosts(Arc::new(rules))),
                Err(what) => {
                    fields.problem(
                        node.place,
                        what.to_string(),
                        "for example api.example.com, *.example.com, 127.0.0.1:8080",
                    );
                    None
                }
            }
        }
        _ => {
            fields.problem(
                node.place,
                "'network' must be deny, allow or a list of hosts",
                "for example network: [api.example.com]",
            );
            None
        }
    }
}

/// Needs paths; what would open everything is refused.
fn paths(fields: &mut Fields<'_>, name: &'static str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (text, place) in fields.texts(name).unwrap_or_default() {
        match checked_path(text) {
            Ok(path) => paths.push(path),
            Err(what) => refuse(fields, place, text, what),
        }
    }
    paths
}

fn refuse(fields: &mut Fields<'_>, place: Place, text: &str, what: &str) {
    fields.problem(
        place,
        format!("the path {text:?} {what}"),
        "name the folders and files that the tool really needs",
    );
}

fn checked_path(text: &str) -> Result<PathBuf, &'static str> {
    let path = Path::new(text);
    if text.is_empty() || text.contains('\0') {
        return Err("is empty or holds a NUL character");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("climbs with '..'");
    }
    let forbidden = ["/", "/proc", "/sys", "/dev", "/etc", "/root", "/home", "/var", "/run", "/boot"];
    if forbidden.iter().any(|whole| path == Path::new(whole)) {
        return Err("would open too much");
    }
    let kernel = ["/proc", "/sys", "/dev"];
    if kernel.iter().any(|tree| path.starts_with(tree)) {
        return Err("belongs to the kernel");
    }
    Ok(path.to_owned())
}
