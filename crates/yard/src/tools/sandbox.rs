//! The sandbox a tool asks for in its file: `sandbox:` in both formats, and `policy` of a manifest.

use super::tool_reader::FileContext;
use super::written::FileUse;
use super::{Loader, ToolReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolyard_formats::doc::{Fields, Node, Position, Value};
use toolyard_protocol::{GrantOrigin, Permissions};
use toolyard_runtimes::command::Program;
use toolyard_runtimes::grants::Refusal;
use toolyard_runtimes::interpreter;
use toolyard_runtimes::proxy_clients::{self, Remark};
use toolyard_runtimes::sandbox_builder::{NetworkPolicy, SandboxBuilder, SandboxRequest};
use toolyard_sandbox::proxy::HostRules;
use toolyard_sandbox::{Launcher, SandboxLevel, Weakness};

/// `sandbox: none`, or a map of what is needed; `{level: none}` with other limits than the usual ones.
pub fn read(request: &mut SandboxRequest, fields: &mut Fields<'_>, context: &FileContext<'_>) {
    let Some(node) = fields.take("sandbox") else { return };
    request.is_declared = true;
    match &node.value {
        Value::Text(text) if text == "none" => request.is_disabled = true,
        Value::Map(_) => match Fields::open(node, "sandbox") {
            Ok(mut map) if map.has("level") => {
                read_unconfined(request, &mut map);
                fields.close(map);
            }
            Ok(mut map) => {
                read_map(request, &mut map, context);
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

/// A program without a sandbox has nothing to declare but its limits.
fn read_unconfined(request: &mut SandboxRequest, map: &mut Fields<'_>) {
    match map.text_with_position("level") {
        Some(("none", _)) => request.is_disabled = true,
        Some((other, position)) => {
            let hint =
                "a tool's file can only say level: none; toolyard.toml chooses between full and landlock";
            map.problem(position, format!("'level' is '{other}'"), hint);
        }
        None => {}
    }
    read_limits(request, map);
}

fn read_limits(request: &mut SandboxRequest, map: &mut Fields<'_>) {
    request.memory = map.integer("memory", 1 << 20..=1 << 40).or(request.memory);
    request.cpu = map.integer("cpuMs", 1..=86_400_000).map(Duration::from_millis).or(request.cpu);
    request.processes = map.integer("processes", 1..=100_000).or(request.processes);
}

fn read_map(request: &mut SandboxRequest, map: &mut Fields<'_>, context: &FileContext<'_>) {
    if let Some(node) = map.take("network")
        && let Some(network) = network(map, node)
    {
        request.network = network;
    }
    if let Some(mut fs) = map.map("fs") {
        request.read.extend(paths(&mut fs, "read", context));
        request.write.extend(paths(&mut fs, "write", context));
        refuse_nested(&mut fs, request, &context.loader.root);
        map.close(fs);
    }
    read_limits(request, map);
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
        if let Some(home) = self.loader.places.home_in(&self.loader.root).filter(|_| !policy.allow_home) {
            let what = format!(
                "the yard holds the home folder {}, which its tools could read as a whole",
                home.display()
            );
            let hint =
                "move the yard to a folder of its own, or write [sandbox] allow_home = true in toolyard.toml";
            fields.problem(fields.position, what, hint);
            return None;
        }
        let launcher = &self.loader.launcher;
        let level = launcher.sandbox_level().min(policy.level);
        let why = match request.unsupported_reason(level) {
            None if level >= policy.require => return Some((level, Vec::new())),
            None => policy.weakness(launcher).map(|weakness| {
                let require = policy.require;
                (
                    format!(
                        "the yard requires the sandbox level {require}, but it is {level}: {}",
                        weakness.what
                    ),
                    weakness.remedy,
                )
            })?,
            Some(why) if policy.require == SandboxLevel::None => {
                let note = format!("it runs without the sandbox it asks for, as toolyard.toml allows: {why}");
                return Some((SandboxLevel::None, vec![note]));
            }
            Some(why) => {
                let weakness = policy.weakness(launcher);
                let why =
                    weakness.as_ref().map_or(why.to_owned(), |weakness| format!("{why}: {}", weakness.what));
                (why, weakness.map_or_else(String::new, |weakness| weakness.remedy))
            }
        };
        let (why, remedy) = why;
        let hint = format!(
            "{remedy}; or write sandbox: none in the file, or [sandbox] require = \"none\" in toolyard.toml"
        );
        let what = format!("the tool cannot be sandboxed on this machine: {why}");
        fields.problem(fields.position, what, hint.trim_start_matches("; or "));
        None
    }

    /// A loopback address is not an identity, and a tool with the whole network has all of them.
    pub fn remark_on_network(&self, level: SandboxLevel, notes: &mut Vec<String>) {
        let network = &self.shared.sandbox_request.network;
        if level > SandboxLevel::None && matches!(network, NetworkPolicy::Allow) {
            let what = "it can reach every port of this machine, also Toolyard's own: there it is a caller without the \
                        token ('network: allow')";
            notes.push(what.to_owned());
        }
    }

    /// Says which declared paths are missing, and which lie outside the yard.
    pub fn remark_on_grants(&self, warnings: &mut Vec<String>, notes: &mut Vec<String>) {
        let root = &self.loader.root;
        for (path, writable) in self.shared.sandbox_request.paths() {
            if !root.join(path).starts_with(root) {
                let how = if writable { "write" } else { "read" };
                notes.push(format!("it may {how} {}, which is outside the yard", path.display()));
            }
            if self.loader.places.open(path, writable).is_err() {
                self.track(path);
                warnings.push(format!(
                    "the path {path:?} under 'sandbox.fs' does not exist; calls fail until it does"
                ));
            }
        }
    }

    /// Says whether the program uses the proxy of a list of hosts.
    pub fn remark_on_proxy(&self, program: &str, warnings: &mut Vec<String>, notes: &mut Vec<String>) {
        let NetworkPolicy::Hosts(_) = self.shared.sandbox_request.network else { return };
        match proxy_clients::remark(program) {
            Some(Remark::Ignores(what)) => warnings.push(what),
            Some(Remark::Partly(what)) => notes.push(what),
            None => {}
        }
    }

    pub fn sandbox_builder(&self, level: SandboxLevel) -> SandboxBuilder {
        let (sandbox_request, places) = (self.shared.sandbox_request.clone(), self.loader.places.clone());
        SandboxBuilder { sandbox_request, level, places }
    }

    /// What the tool uses, to be compared with the other tools.
    pub fn file_use(&self, words: Vec<String>, program: &Program, permissions: &Permissions) -> FileUse {
        // Only a tool without a sandbox has no network policy.
        let is_confined = !permissions.network.is_empty();
        let Loader { root, host, .. } = self.loader;
        let found = match program {
            Program::Named(name) => host.program(name, root),
            Program::Resolved { path, .. } => Some(path.clone()),
            Program::Prepared(_) => None,
        };
        let real = found.as_ref().and_then(|path| std::fs::canonicalize(path).ok());
        // In the sandbox a program of the yard is seen like any other file of it.
        let is_shown = |path: &PathBuf| !is_confined || !path.starts_with(root);
        let parts = permissions.files.iter().filter(|grant| grant.origin == GrantOrigin::Program);
        let parts = parts.map(|grant| PathBuf::from(&grant.path));
        let parts = found.into_iter().chain(real).filter(is_shown).chain(parts).collect();
        let request = &self.shared.sandbox_request;
        let place = |path: &PathBuf| root.join(path).components().collect();
        let list = |paths: &[PathBuf]| match is_confined {
            true => paths.iter().map(place).collect(),
            false => Vec::new(),
        };
        let (read, write) = (list(&request.read), list(&request.write));
        FileUse { source: self.file.source.clone(), is_confined, read, write, words, parts }
    }

    /// What a run would get now.
    pub fn permissions(&self, builder: &SandboxBuilder, program: &Program) -> Permissions {
        match program {
            Program::Named(name) => {
                let program = self.loader.find_program(name);
                let interpreter = program.as_deref().and_then(interpreter::named_in_script);
                let interpreter = interpreter.and_then(|name| self.loader.find_program(&name));
                builder.permissions(&program.into_iter().chain(interpreter).collect::<Vec<_>>(), None)
            }
            Program::Resolved { path, .. } => builder.permissions(std::slice::from_ref(path), None),
            Program::Prepared(environment) => builder.permissions(&[], Some(environment.folder())),
        }
    }
}

/// The sandbox settings of the whole yard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SandboxPolicy {
    /// The strongest level to use, if the machine supports it.
    pub level: SandboxLevel,
    /// The weakest level at which tools are started.
    pub require: SandboxLevel,
    /// Tools may run although the yard is a home folder or contains one.
    pub allow_home: bool,
}

impl Default for SandboxPolicy {
    fn default() -> SandboxPolicy {
        SandboxPolicy { level: SandboxLevel::Full, require: SandboxLevel::Landlock, allow_home: false }
    }
}

impl SandboxPolicy {
    /// Why tools get less than the full sandbox: the machine, or the yard's own choice.
    pub fn weakness(&self, launcher: &Launcher) -> Option<Weakness> {
        if launcher.sandbox_level() > self.level {
            let what = format!("toolyard.toml says [sandbox] level = \"{}\"", self.level);
            return Some(Weakness { what, remedy: "remove the line".to_owned() });
        }
        launcher.weakness().cloned()
    }
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

/// Reads a list of paths and opens each as a call would, so that one that is refused is known at once.
fn paths(fields: &mut Fields<'_>, name: &'static str, context: &FileContext<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (text, position) in fields.texts(name).unwrap_or_default() {
        if text.is_empty() || text.contains('\0') {
            refuse(fields, position, text, "is empty or holds a NUL character");
            continue;
        }
        match context.loader.places.open(Path::new(text), name == "write") {
            Err(Refusal::Because(why)) => {
                context.recorder.add(context.loader.root.join(text));
                refuse(fields, position, text, &why);
            }
            Ok(_) | Err(Refusal::Missing) => paths.push(PathBuf::from(text)),
        }
    }
    paths
}

/// Inside a folder that the tool may write, it could move another granted path away and put a link there.
fn refuse_nested(fields: &mut Fields<'_>, request: &SandboxRequest, root: &Path) {
    let place = |path: &PathBuf| root.join(path).components().collect::<PathBuf>();
    for outer in &request.write {
        let nested =
            |inner: &&PathBuf| place(inner) != place(outer) && place(inner).starts_with(place(outer));
        if let Some((inner, _)) = request.paths().find(|(inner, _)| nested(inner)) {
            let what = format!("lies in {outer:?}, which the tool may write already");
            refuse(fields, fields.position, &inner.to_string_lossy(), &what);
        }
    }
}

fn refuse(fields: &mut Fields<'_>, position: Position, text: &str, what: &str) {
    fields.problem(
        position,
        format!("the path {text:?} {what}"),
        "name the folders and files that the tool really needs",
    );
}
