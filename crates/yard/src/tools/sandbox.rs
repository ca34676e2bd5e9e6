//! The sandbox a tool asks for in its file: `sandbox:` in both formats, and `policy` of a manifest.

use super::ToolReader;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_formats::doc::{Fields, Node, Position, Value};
use toolyard_runtimes::sandbox_builder::{NetworkPolicy, SandboxRequest};
use toolyard_sandbox::SandboxLevel;
use toolyard_sandbox::proxy::HostRules;

/// `sandbox: none`, or a map of what is needed.
pub fn read(request: &mut SandboxRequest, fields: &mut Fields<'_>) {
    let Some(node) = fields.take("sandbox") else { return };
    request.is_declared = true;
    match &node.value {
        Value::Text(text) if text == "none" => request.is_disabled = true,
        Value::Map(_) => match Fields::open(node, "sandbox") {
            Ok(mut map) => {
                read_map(request, &mut map);
                fields.close(map);
            }
            Err(problem) => fields.problems.push(problem),
        },
        _ => {
            let hint = "write sandbox: none, or sandbox: {network: [host], fs: {write: [data]}}";
            fields.problem(node.position, "'sandbox' must be 'none' or a map of what the tool needs", hint);
        }
    }
}

fn read_map(request: &mut SandboxRequest, map: &mut Fields<'_>) {
    if let Some(node) = map.take("network")
        && let Some(network) = network(map, node)
    {
        request.network = network;
    }
    if let Some(mut fs) = map.map("fs") {
        request.read.extend(paths(&mut fs, "read"));
        request.write.extend(paths(&mut fs, "write"));
        map.close(fs);
    }
    request.memory = map.integer("memory", 1 << 20..=1 << 40).or(request.memory);
    request.cpu = map.integer("cpuMs", 1..=86_400_000).map(Duration::from_millis).or(request.cpu);
    request.processes = map.integer("processes", 1..=100_000).or(request.processes);
    request.tmp_bytes = map.integer("tmp", 4096..=1 << 36).unwrap_or(request.tmp_bytes);
}

/// `policy: {memory_bytes, cpu_time_ms, network, fs: {preopen_tmp}}` of a manifest.
pub fn read_policy(request: &mut SandboxRequest, policy: &mut Fields<'_>) {
    request.memory = policy.integer("memory_bytes", 1 << 20..=1 << 40).or(request.memory);
    request.cpu = policy.integer("cpu_time_ms", 1..=86_400_000).map(Duration::from_millis).or(request.cpu);
    if let Some(node) = policy.take("network")
        && let Some(network) = network(policy, node)
    {
        request.network = network;
    }
    if let Some(mut fs) = policy.map("fs") {
        if fs.bool("preopen_tmp") == Some(false) {
            // Programs expect the folder to exist, so it gets the smallest size.
            request.tmp_bytes = 4096;
        }
        policy.close(fs);
    }
}

impl ToolReader<'_> {
    /// The sandbox level of the tool on this machine, with notes for the owner; `None` when it cannot enforce
    /// what the file asks for and the yard does not allow the tool to run anyway.
    pub fn sandbox_level(&self, fields: &mut Fields<'_>) -> Option<(SandboxLevel, Vec<String>)> {
        let request = &self.shared.sandbox_request;
        if request.is_disabled {
            return Some((
                SandboxLevel::None,
                vec!["it runs without a sandbox: its file says 'sandbox: none'".to_owned()],
            ));
        }
        let policy = self.loader.settings().sandbox_policy;
        let machine = self.loader.launcher.sandbox_level().min(policy.level);
        let Some(why) = request.unsupported_reason(machine) else { return Some((machine, Vec::new())) };
        if policy.when_unavailable == WhenUnavailable::Run {
            let note = format!("it runs without the sandbox it asks for, as toolyard.toml allows: {why}");
            return Some((SandboxLevel::None, vec![note]));
        }
        let hint = "write sandbox: none in the file, or [sandbox] when_unavailable = \"run unconfined\" in toolyard.toml";
        fields.problem(fields.position, format!("the tool cannot be sandboxed on this machine: {why}"), hint);
        None
    }
}

/// The sandbox settings of the whole yard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SandboxPolicy {
    /// The strongest level to use, if the machine supports it.
    pub level: SandboxLevel,
    pub when_unavailable: WhenUnavailable,
}

impl Default for SandboxPolicy {
    fn default() -> SandboxPolicy {
        SandboxPolicy { level: SandboxLevel::Full, when_unavailable: WhenUnavailable::Refuse }
    }
}

/// What happens to tools that this machine cannot sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnavailable {
    #[default]
    Refuse,
    Run,
}

fn network<'n>(fields: &mut Fields<'n>, node: &'n Node) -> Option<NetworkPolicy> {
    match &node.value {
        Value::Text(text) if text == "deny" => Some(NetworkPolicy::Deny),
        Value::Text(text) if text == "allow" => Some(NetworkPolicy::Allow),
        Value::Text(text) if text == "egress-proxy" => {
            let hint = "write \"network\": [\"host\", \"host:port\"]";
            fields.problem(node.position, "'network' is 'egress-proxy', but names no hosts", hint);
            None
        }
        Value::List(_) => {
            let hosts = fields.texts_of(node, "network")?;
            let texts: Vec<&str> = hosts.iter().map(|(text, _)| *text).collect();
            match HostRules::parse(texts) {
                Ok(rules) => Some(NetworkPolicy::Hosts(Arc::new(rules))),
                Err(what) => {
                    fields.problem(
                        node.position,
                        what.to_string(),
                        "for example api.example.com, *.example.com, 127.0.0.1:8080",
                    );
                    None
                }
            }
        }
        _ => {
            fields.problem(
                node.position,
                "'network' must be deny, allow or a list of hosts",
                "for example network: [api.example.com]",
            );
            None
        }
    }
}

/// Reads a list of paths; those that would expose whole system folders are refused.
fn paths(fields: &mut Fields<'_>, name: &'static str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (text, position) in fields.texts(name).unwrap_or_default() {
        match checked_path(text) {
            Ok(path) => paths.push(path),
            Err(what) => refuse(fields, position, text, what),
        }
    }
    paths
}

fn refuse(fields: &mut Fields<'_>, position: Position, text: &str, what: &str) {
    fields.problem(
        position,
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
        return Err("contains '..'");
    }
    let forbidden = ["/", "/proc", "/sys", "/dev", "/etc", "/root", "/home", "/var", "/run", "/boot"];
    if forbidden.iter().any(|whole| path == Path::new(whole)) {
        return Err("would expose too much");
    }
    let kernel = ["/proc", "/sys", "/dev"];
    if kernel.iter().any(|tree| path.starts_with(tree)) {
        return Err("belongs to the kernel");
    }
    Ok(path.to_owned())
}
