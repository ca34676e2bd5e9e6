//! A snapshot of a yard's prompts: each loaded independently, found by name.

use super::files::PromptFiles;
use super::naming::{PackName, PromptRef};
use super::reader::{REGISTRY, Reader};
use super::version::Version;
use crate::tools::changes::Changes;
use crate::tools::inputs::Inputs;
use crate::tools::schemas::SchemaFolder;
use crate::tools::{file_problem, warning};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use toolyard_engine::{Registry, SourceProblem};
use toolyard_protocol::json::{Object, array};
use toolyard_protocol::text::{escape_control, nearest};
use toolyard_protocol::{Error, ErrorKind, Extra, Payload, Prompt, PromptPack};
use toolyard_wire::prompt;

/// The prompts of a yard.
#[derive(Default)]
pub struct Packs {
    packs: Vec<Pack>,
    /// By exposed name, `domain.name` and `domain/name`.
    by_name: HashMap<String, usize>,
    pub problems: Vec<SourceProblem>,
    /// `None` before the first load.
    inputs: Option<Arc<Inputs>>,
    /// Hash of everything that was read.
    content_hash: u64,
}

/// One prompt with its versions.
pub struct Pack {
    pub name: PackName,
    pub exposed: String,
    /// The newest registered version, even if it could not be loaded.
    pub newest: u32,
    pub versions: BTreeMap<u32, Version>,
    /// The spec file, for problem reports.
    pub source: String,
}

/// A prompt as lists show it.
pub struct PromptListing {
    pub prompt: Prompt,
    /// `domain.name`.
    pub id: String,
    pub versions: Vec<u32>,
}

impl Packs {
    /// Loads every prompt. Never fails as a whole: a broken file is a problem of that file only.
    pub fn load(root: &Path, state: &Path) -> Packs {
        let mut packs = Packs::default();
        let mut reader =
            Reader { files: PromptFiles::new(SchemaFolder { root, state }), problems: &mut packs.problems };
        let registered = reader.registry();
        let mut read = Vec::with_capacity(registered.len());
        for registered in &registered {
            // A panic in a parser must not affect the other prompts.
            let one = std::panic::AssertUnwindSafe(|| reader.pack(registered));
            match std::panic::catch_unwind(one) {
                Ok(pack) => read.extend(pack),
                Err(_) => {
                    let what =
                        format!("internal error while reading '{}'; please report it", registered.name);
                    reader.problems.push(file_problem(REGISTRY, what));
                }
            }
        }
        reader.warn_unregistered(&registered);
        let (content_hash, inputs) = reader.files.finish();
        (packs.content_hash, packs.inputs) = (content_hash, Some(inputs));
        for pack in read {
            add(&mut packs, pack);
        }
        packs
    }

    /// Whether a reload would give the same result.
    pub(crate) fn is_current_after(&self, changes: &Changes) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| inputs.is_current_after(changes))
    }

    /// `None` when the files are unchanged; else a fingerprint of their current state.
    pub(crate) fn difference(&self) -> Option<u64> {
        let mut state = DefaultHasher::new();
        let same = self.inputs.as_ref().is_some_and(|inputs| inputs.stamps().compare(&mut state));
        (!same).then(|| state.finish())
    }

    pub(crate) fn inputs(&self) -> Option<&Arc<Inputs>> {
        self.inputs.as_ref()
    }

    pub(super) fn is_same(&self, other: &Packs) -> bool {
        self.content_hash == other.content_hash
    }

    /// The number of prompts whose newest version is loaded.
    pub fn len(&self) -> usize {
        self.packs.iter().filter(|pack| pack.versions.contains_key(&pack.newest)).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Resolves a name to a prompt and a version.
    pub fn find(&self, text: &str) -> Result<(&Pack, &Version), Error> {
        let reference = PromptRef::parse(text);
        let pack = self.by_name.get(reference.name).and_then(|at| self.packs.get(*at));
        let pack = pack.ok_or_else(|| self.unknown(reference.name))?;
        let major = match reference.major {
            None => pack.newest,
            Some(Ok(major)) => major,
            Some(Err(what)) => {
                let message =
                    format!("{:?} is not a version of the prompt '{}'", escape_control(what), pack.exposed);
                return Err(Error::new(ErrorKind::InvalidInput, message).hint(pack.available_versions()));
            }
        };
        match pack.versions.get(&major) {
            Some(version) => Ok((pack, version)),
            None if major == pack.newest => {
                let message = format!("the newest version of '{}', {major}, is broken", pack.exposed);
                Err(Error::new(ErrorKind::Unavailable, message)
                    .hint(format!("'toolyard check' says why; {}", pack.available_versions())))
            }
            None => {
                let message = format!("the prompt '{}' has no version {major}", pack.exposed);
                Err(Error::new(ErrorKind::ResourceNotFound, message).hint(pack.available_versions()))
            }
        }
    }

    /// Every prompt whose newest version is loaded, sorted by name.
    pub fn list(&self, tools: &Registry) -> Vec<PromptListing> {
        let mut rows: Vec<PromptListing> = self.packs.iter().filter_map(|pack| pack.listed(tools)).collect();
        rows.sort_by(|a, b| a.prompt.name.cmp(&b.prompt.name));
        rows
    }

    /// Every prompt with its loaded versions, sorted by name.
    pub fn with_versions(&self) -> Vec<PromptPack> {
        let describe = |(major, version): (&u32, &Version)| (*major, version.spec.description.clone());
        let pack = |pack: &Pack| PromptPack {
            domain: pack.name.domain.clone(),
            name: pack.name.name.clone(),
            versions: pack.versions.iter().map(describe).collect(),
        };
        let mut packs: Vec<PromptPack> = self.packs.iter().map(pack).collect();
        packs.retain(|pack| !pack.versions.is_empty());
        packs.sort_by(|a, b| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)));
        packs
    }

    /// A warning for each tool that a prompt needs and `tool_exists` does not know.
    pub(crate) fn missing_tools(&self, tool_exists: impl Fn(&str) -> bool) -> Vec<SourceProblem> {
        let mut found = Vec::new();
        for pack in &self.packs {
            let specs = pack.versions.values().map(|version| version.spec.tools()).next_back();
            for tool in specs.into_iter().flatten().filter(|tool| !tool_exists(&tool.name)) {
                found.push(SourceProblem {
                    position: Some((tool.position.line, tool.position.column)),
                    hint: Some("name a tool as 'toolyard list' shows it".to_owned()),
                    ..warning(&pack.source, format!("the tool '{}' was not found", tool.name))
                });
            }
        }
        found
    }

    fn unknown(&self, name: &str) -> Error {
        let mut error = toolyard_engine::prompts::prompt_not_found(name);
        if let Some(near) = nearest(name, self.by_name.keys().map(String::as_str)) {
            error.hint = Some(format!("did you mean '{near}'?"));
        }
        error
    }
}

impl Pack {
    fn available_versions(&self) -> String {
        let majors: Vec<String> = self.versions.keys().map(u32::to_string).collect();
        if majors.is_empty() {
            "no other version is available".to_owned()
        } else {
            format!("available versions: {}", majors.join(", "))
        }
    }

    fn listed(&self, tools: &Registry) -> Option<PromptListing> {
        let spec = &self.versions.get(&self.newest)?.spec;
        let arguments = spec.inputs(tools).map(|schema| prompt::arguments(&schema)).unwrap_or_default();
        let versions: Vec<u32> = self.versions.keys().copied().collect();
        let prompt = Prompt {
            name: self.exposed.clone(),
            title: spec.title.clone(),
            description: spec.description.clone(),
            arguments,
            extra: Extra { meta: Some(meta(&versions, spec.constraints.as_ref())), ..Extra::default() },
        };
        Some(PromptListing { prompt, id: self.name.to_string(), versions })
    }
}

/// Metadata that MCP has no fields for.
fn meta(versions: &[u32], constraints: Option<&Payload>) -> Payload {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    array(object.member("toolyard/versions"), versions, |out, version| {
        out.extend_from_slice(version.to_string().as_bytes());
    });
    if let Some(constraints) = constraints {
        object.raw("toolyard/constraints", constraints.bytes());
    }
    object.end();
    Payload::json(out)
}

/// On a name collision the first prompt wins.
fn add(packs: &mut Packs, pack: Pack) {
    let PackName { domain, name } = &pack.name;
    let names = [pack.exposed.clone(), format!("{domain}.{name}"), format!("{domain}/{name}")];
    if let Some(taken) = names.iter().find(|name| packs.by_name.contains_key(*name)) {
        let first = packs.by_name.get(taken).and_then(|at| packs.packs.get(*at));
        let first = first.map_or("another prompt", |pack| pack.source.as_str());
        let what = format!("the name '{taken}' is already taken by {first}; '{domain}.{name}' is not loaded");
        let hint = Some("give one of the two another 'expose'".to_owned());
        return packs.problems.push(SourceProblem { hint, ..file_problem(&pack.source, what) });
    }
    packs.by_name.extend(names.map(|name| (name, packs.packs.len())));
    packs.packs.push(pack);
}
