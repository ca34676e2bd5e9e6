//! Reading one tool file: what both formats share, from raw fields to a checked candidate.

use super::{Loader, digest, naming, walk::ToolFile};
use crate::command::CommandRunner;
use crate::kinds::{Kind, Plan};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolyard_engine::{Candidate, Entry};
use toolyard_protocol::text::nearest;
use toolyard_protocol::{Annotations, Limits, Timing, ToolSpec, Version};
use toolyard_wire::answer::Contract;
use toolyard_wire::doc::{Fields, Place, Problem};

/// The longest a tool may be allowed to run: a day.
pub const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;
/// The largest cap on input or output held in memory.
pub const MAX_BYTES: u64 = 1 << 30;

/// One tool file and its surroundings.
pub struct Reading<'a> {
    pub loader: &'a Loader,
    file: &'a ToolFile,
    bytes: &'a [u8],
}

/// A file that passed every check.
pub struct Checked {
    pub candidate: Candidate,
    pub warnings: Vec<String>,
}

/// The fields both formats have, however they spell them.
#[derive(Default)]
pub struct Common {
    pub title: Option<String>,
    pub description: Option<String>,
    pub version: Option<Version>,
    pub annotations: Annotations,
    pub enabled: bool,
}

impl<'a> Reading<'a> {
    pub fn new(loader: &'a Loader, file: &'a ToolFile, bytes: &'a [u8]) -> Reading<'a> {
        Reading { loader, file, bytes }
    }

    /// Fields of ours that may stand in either format.
    pub fn common(&self, fields: &mut Fields<'_>, title_field: &'static str) -> Common {
        Common {
            title: fields.text(title_field).map(str::to_owned),
            description: fields.text("description").map(str::to_owned),
            version: self.version(fields),
            annotations: annotations(fields),
            enabled: fields.bool("enabled").unwrap_or(true),
        }
    }

    fn version(&self, fields: &mut Fields<'_>) -> Option<Version> {
        let (text, place) = fields.placed_text("version")?;
        let version = Version::parse(text);
        if version.is_none() {
            fields.problem(place, format!("'version' {text:?} is not a semantic version"), "write it as \"1.2.3\", in quotes");
        }
        version
    }

    /// The kind of the given name, or a problem that lists the kinds there are.
    pub fn kind(&self, fields: &mut Fields<'_>, field: &'static str, kinds: &[&'static dyn Kind]) -> Option<&'static dyn Kind> {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let all = format!("one of: {}", names.join(", "));
        let (name, place) = fields.required_text(field, &all)?;
        let found = kinds.iter().copied().find(|kind| kind.name() == name);
        if found.is_none() {
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => all,
            };
            fields.problem(place, format!("'{field}' is '{name}', which does not exist"), &hint);
        }
        found
    }

    /// A child process with these arguments.
    pub fn command(&self, fields: &mut Fields<'_>, argv: Vec<(&str, Place)>, contract: Contract) -> Option<Plan> {
        for (text, place) in &argv {
            if text.contains('\0') {
                fields.problem(*place, "an argument holds a NUL character, which no program can receive", "remove it");
                return None;
            }
        }
        let Some((program, place)) = argv.first().filter(|(program, _)| !program.trim().is_empty()) else {
            let place = argv.first().map_or(fields.place, |(_, place)| *place);
            fields.problem(place, "'entry' names no program", "the first element is the program");
            return None;
        };
        let env = self.env(fields);
        let Loader { root, host, launcher, .. } = self.loader;
        let mut warnings = Vec::new();
        if host.program(program, root).is_none() {
            warnings.push(format!("line {}: the program '{program}' is not there or is not executable", place.line));
        }
        warnings.extend(env.iter().filter(|name| host.var(name).is_none()).map(|name| {
            format!("the variable '{name}' is listed under env but is not set here")
        }));
        let files = argv.iter().filter_map(|(text, _)| yard_file(root, text)).collect();
        let argv = argv.into_iter().map(|(text, _)| text.to_owned()).collect();
        let (launcher, host) = (launcher.clone(), host.clone());
        let runner = Box::new(CommandRunner { launcher, host, root: root.clone(), argv, env, contract });
        Some(Plan { runner, files, warnings })
    }

    /// Names of variables to pass on. The formats spell the field differently; both are asked for.
    fn env(&self, fields: &mut Fields<'_>) -> Vec<String> {
        let names = fields.texts("env").unwrap_or_default();
        let mut env = Vec::with_capacity(names.len());
        for (name, place) in names {
            if name.is_empty() || name.contains(['=', '\0']) {
                fields.problem(place, format!("'env' lists {name:?}, which is not a variable name"), "list names only, without values");
            } else {
                env.push(name.to_owned());
            }
        }
        env
    }

    /// Puts the parts together, or gives back every problem.
    pub fn finish(
        &self,
        mut fields: Fields<'_>,
        unsupported: &[(&'static str, &str)],
        parts: Parts,
    ) -> Result<Checked, Vec<Problem>> {
        let names = parts.id.and_then(|(id, place)| {
            let folder = self.file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            let names = naming::names(&id, &folder);
            names.map_err(|what| fields.problem(place, what, "use letters, digits and '_'; dots separate modules")).ok()
        });
        if parts.kind.is_none() {
            fields.leave_rest();
        }
        let problems = fields.finish(unsupported);
        let (Some((name, exposed)), Some(kind), Some(plan), true) = (names, parts.kind, parts.plan, problems.is_empty())
        else {
            return Err(problems);
        };
        let spec = ToolSpec {
            name,
            exposed,
            kind: kind.name(),
            source: self.file.source.clone(),
            version: parts.common.version,
            title: parts.common.title,
            description: parts.common.description,
            annotations: parts.common.annotations,
            timing: Timing::Sync,
            limits: parts.limits,
            digest: digest::digest(self.bytes, &self.loader.root, &plan.files),
            input_schema: None,
            output_schema: None,
        };
        let entry = Entry { spec, runner: plan.runner, input: None, output: None };
        Ok(Checked { candidate: Candidate { entry, enabled: parts.common.enabled }, warnings: plan.warnings })
    }
}

/// What a format's reader found, problems aside.
pub struct Parts {
    pub id: Option<(String, Place)>,
    pub kind: Option<&'static dyn Kind>,
    pub plan: Option<Plan>,
    pub common: Common,
    pub limits: Limits,
}

fn annotations(fields: &mut Fields<'_>) -> Annotations {
    let Some(mut map) = fields.map("annotations") else { return Annotations::default() };
    let annotations = Annotations {
        read_only: map.bool("readOnlyHint"),
        destructive: map.bool("destructiveHint"),
        idempotent: map.bool("idempotentHint"),
        open_world: map.bool("openWorldHint"),
    };
    fields.close(map);
    annotations
}

/// A limit in milliseconds, or the default.
pub fn timeout(fields: &mut Fields<'_>, name: &'static str, default: Duration) -> Duration {
    fields.integer(name, 1..=MAX_TIMEOUT_MS).map_or(default, Duration::from_millis)
}

/// A limit in bytes, or the default.
pub fn bytes(fields: &mut Fields<'_>, name: &'static str, default: usize) -> usize {
    fields.integer(name, 1..=MAX_BYTES).map_or(default, |value| value as usize)
}

/// The argument as a file of the yard, if it is one.
fn yard_file(root: &Path, text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let inside = path.is_relative() && !path.components().any(|part| part == std::path::Component::ParentDir);
    (inside && root.join(path).is_file()).then(|| path.to_owned())
}
