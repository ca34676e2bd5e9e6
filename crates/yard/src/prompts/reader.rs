//! Reads prompt files into packs; every problem names its file.

use super::files::PromptFiles;
use super::naming::{PackName, parse_major};
use super::packs::Pack;
use super::registry::{self, RegistryEntry};
use super::spec::{Spec, SpecContext};
use super::version::Version;
use crate::tools::{file_problem, located_problem, warning};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::SourceProblem;
use toolyard_formats::doc::{self, DocumentFormat};
use toolyard_formats::template::{Target, Template};
use toolyard_protocol::text::nearest;

pub const REGISTRY: &str = "prompts/REGISTRY.yaml";
const PACKS: &str = "prompts/packs";
/// Folder entries that are checked for unregistered files.
const MAX_NAMES: usize = 10_000;

/// One pass over the files, and the problems found.
pub struct Reader<'a> {
    pub files: PromptFiles<'a>,
    pub problems: &'a mut Vec<SourceProblem>,
}

impl Reader<'_> {
    pub fn registry(&mut self) -> Vec<RegistryEntry> {
        let path = Path::new(REGISTRY);
        // The folder is recorded too, so that its later creation is noticed.
        if !self.files.exists(Path::new("prompts")) || !self.files.exists(path) {
            return Vec::new();
        }
        let Some(node) = self.document(path) else { return Vec::new() };
        let (registered, found) = registry::read(&node);
        self.problems.extend(found.into_iter().map(|problem| located_problem(REGISTRY, problem)));
        registered
    }

    /// Given even when no version loads, so that the prompt is reported as broken, not as unknown.
    pub fn pack(&mut self, registered: &RegistryEntry) -> Option<Pack> {
        let PackName { domain, name } = &registered.name;
        let folder = Path::new(PACKS).join(domain);
        let shared_path = folder.join(format!("{name}.spec.yaml"));
        let mut shared: Option<Option<Arc<Spec>>> = None;
        let newest = registered.majors.last().copied()?;
        let (mut versions, mut exposed) = (BTreeMap::new(), registered.name.to_string());
        let mut source = shared_path.to_string_lossy().into_owned();
        for &major in &registered.majors {
            let own = folder.join(format!("{name}.v{major}.spec.yaml"));
            let (spec, path) = if self.files.exists(&own) {
                (self.spec(&own), &own)
            } else {
                (shared.get_or_insert_with(|| self.spec(&shared_path)).clone(), &shared_path)
            };
            let Some(spec) = spec else { continue };
            if let Some((name, _)) = spec.expose.as_ref().filter(|_| major == newest) {
                exposed = name.to_string();
            }
            source = path.to_string_lossy().into_owned();
            versions
                .extend(self.version(spec, &folder.join(format!("{name}.v{major}.md"))).map(|v| (major, v)));
        }
        Some(Pack { name: registered.name.clone(), exposed, newest, versions, source })
    }

    /// A missing spec is allowed and gives the default.
    fn spec(&mut self, path: &Path) -> Option<Arc<Spec>> {
        if !self.files.exists(path) {
            return Some(Arc::default());
        }
        let node = self.document(path)?;
        let source = path.to_string_lossy().into_owned();
        match Spec::read(&node, &SpecContext { files: &self.files, source: &source }) {
            Ok(spec) => Some(Arc::new(spec)),
            Err(found) => {
                self.problems.extend(found.into_iter().map(|problem| located_problem(&source, problem)));
                None
            }
        }
    }

    /// Loads a version; its templates may use only variables that the spec declares.
    fn version(&mut self, spec: Arc<Spec>, file: &Path) -> Option<Version> {
        let source = file.to_string_lossy().into_owned();
        let mut body = None;
        if spec.uses_body() {
            let text = self.text(file)?;
            match Template::parse(&text, Target::Page) {
                Ok(template) => body = Some(template),
                Err(what) => {
                    self.problems.push(file_problem(&source, what));
                    return None;
                }
            }
        } else if self.files.exists(file) {
            let what = "this file is not used: the spec builds the messages without it".to_owned();
            self.problems.push(warning(&source, what));
        }
        let messages = spec.messages.iter().flatten().flat_map(|message| message.templates());
        let wrong: Vec<SourceProblem> = messages
            .chain(&body)
            .flat_map(|template| undeclared_variables(&spec, template, &source))
            .collect();
        let good = wrong.is_empty();
        self.problems.extend(wrong);
        good.then_some(Version { spec, body })
    }

    fn document(&mut self, path: &Path) -> Option<doc::Node> {
        let source = path.to_string_lossy().into_owned();
        let read = self.files.read(path).map_err(|what| file_problem(&source, what));
        let read = read.and_then(|bytes| {
            doc::read(DocumentFormat::Yaml, &bytes).map_err(|problem| located_problem(&source, problem))
        });
        read.map_err(|problem| self.problems.push(problem)).ok()
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let source = path.to_string_lossy().into_owned();
        let read = self.files.read(path).map_err(|what| SourceProblem {
            hint: Some(format!("create the file, or remove the version from {REGISTRY}")),
            ..file_problem(&source, what)
        });
        let read = read.and_then(|bytes| {
            let text = String::from_utf8(bytes);
            text.map_err(|_| file_problem(&source, "the file is not UTF-8; save it as UTF-8".to_owned()))
        });
        read.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Warns about prompt files that the registry does not list.
    pub fn warn_unregistered(&mut self, registered: &[RegistryEntry]) {
        // Nothing below a missing folder can be watched.
        if !self.files.exists(Path::new("prompts")) {
            return;
        }
        let known: BTreeSet<PathBuf> = registered
            .iter()
            .flat_map(|RegistryEntry { name: PackName { domain, name }, majors, .. }| {
                majors
                    .iter()
                    .map(move |major| Path::new(PACKS).join(domain).join(format!("{name}.v{major}.md")))
            })
            .collect();
        for domain in self.names(Path::new(PACKS)) {
            let folder = Path::new(PACKS).join(&domain);
            for name in self.names(&folder) {
                let path = folder.join(&name);
                let stem = name.strip_suffix(".md").and_then(|stem| stem.rsplit_once(".v"));
                let major = stem.and_then(|(_, major)| parse_major(major));
                if let (Some((stem, _)), Some(major)) = (stem, major)
                    && !known.contains(&path)
                {
                    let what = format!("version {major} is not in {REGISTRY}, so it is not served");
                    let hint = Some(format!("add it there: {domain}: {{{stem}: [{major}]}}"));
                    self.problems.push(SourceProblem { hint, ..warning(&path.to_string_lossy(), what) });
                }
            }
        }
    }

    /// Sorted, so that problems are reported in a stable order.
    fn names(&self, folder: &Path) -> Vec<String> {
        if !self.files.exists(folder) {
            return Vec::new();
        }
        let entries = std::fs::read_dir(self.files.folder.root.join(folder)).into_iter().flatten().flatten();
        let names = entries.take(MAX_NAMES).filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }
}

/// A problem for each template variable that the spec does not declare.
fn undeclared_variables(spec: &Spec, template: &Template, source: &str) -> Vec<SourceProblem> {
    let arguments = spec.arguments();
    let names = || arguments.iter().map(|argument| argument.name.as_str());
    let mut problems = Vec::new();
    for variable in template.variables() {
        let (root, rest) = variable.split_once('.').unwrap_or((&variable, ""));
        let name = rest.split('.').next().unwrap_or_default();
        let (what, hint) = if root != "input" {
            let hint = "arguments are under 'input': {{ input.name }}".to_owned();
            (format!("the template uses '{variable}', which does not exist"), hint)
        } else if !name.is_empty() && !names().any(|known| known == name) {
            let near = nearest(name, names());
            let hint = near.map_or("declare it in the spec: inputs: {properties: …}".to_owned(), |near| {
                format!("did you mean 'input.{near}'?")
            });
            (format!("the template uses 'input.{name}', which 'inputs' does not declare"), hint)
        } else {
            continue;
        };
        problems.push(SourceProblem { hint: Some(hint), ..file_problem(source, what) });
    }
    problems
}
