//! Reading one tool file: from raw fields to a checked candidate, or to the list of everything wrong with it.

use super::common::Common;
use super::kept::Notes;
use super::made::{Content, Made};
use super::schemas::{self, Compiled};
use super::{Loader, digest, naming, walk::ToolFile};
use crate::command::{CommandRunner, Program, sandbox_word};
use crate::confine::Confining;
use crate::kinds::{Kind, Plan};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::{Candidate, Entry, PrepareFuture, Run, RunFuture, Runner};
use toolyard_protocol::text::nearest;
use toolyard_protocol::{CacheKey, ExposedName, Limits, ToolName, ToolSpec};
use toolyard_wire::answer::Contract;
use toolyard_wire::cache_key::{Canonical, Templated};
use toolyard_wire::doc::{Fields, Node, Place, Problem};
use toolyard_wire::template::{Target, Template};

/// An argument longer than this is no path.
const MAX_PATH: usize = 1024;

/// One tool file and its surroundings.
pub struct Reading<'a> {
    pub loader: &'a Loader,
    pub file: &'a ToolFile,
    pub bytes: &'a [u8],
    pub common: Common,
    notes: &'a Notes,
}

/// Where a document came from.
pub struct Origin<'a> {
    pub loader: &'a Loader,
    pub file: &'a ToolFile,
    pub bytes: &'a [u8],
    pub notes: &'a Notes,
}

/// A file that passed every check.
pub struct Checked {
    pub candidate: Candidate,
    pub made: Arc<Made>,
    pub warnings: Vec<String>,
    /// What is not wrong, but should be known.
    pub notes: Vec<String>,
}

/// A child process to be, as a kind describes it.
pub struct Spawn<'n> {
    pub program: Program,
    /// What follows the program; may hold templates.
    pub arguments: Vec<(&'n str, Place)>,
    pub set: Vec<(OsString, OsString)>,
    pub contract: Contract,
    /// Files beside those named in the arguments.
    pub files: Vec<PathBuf>,
    pub warnings: Vec<String>,
}

impl<'a> Reading<'a> {
    pub fn new(Origin { loader, file, bytes, notes }: Origin<'a>, common: Common) -> Reading<'a> {
        Reading { loader, file, bytes, common, notes }
    }
}

impl Reading<'_> {
    /// Remembers that what stands at `path` (relative to the yard; a file, a folder or nothing) decides how this
    /// tool is read or runs: when it changes, appears or goes, the tool is read again. Call it before looking.
    pub fn note(&self, path: impl AsRef<Path>) {
        self.notes.add(self.loader.root.join(path));
    }

    /// Remembers that nothing was found at `path` when it was looked for.
    pub fn missing(&self, path: impl AsRef<Path>) {
        self.notes.missing(self.loader.root.join(path));
    }

    /// The kind of the given name, or a problem that lists the kinds there are.
    pub fn kind(
        fields: &mut Fields<'_>,
        field: &'static str,
        kinds: &[&'static dyn Kind],
    ) -> Option<&'static dyn Kind> {
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

    /// The first of `argv` as a program of its own; a template can't choose what runs.
    pub fn named_program(
        &self,
        fields: &mut Fields<'_>,
        argv: &[(&str, Place)],
    ) -> Option<(Program, Vec<String>)> {
        let Some((program, place)) = argv.first().filter(|(program, _)| !program.trim().is_empty()) else {
            let place = argv.first().map_or(fields.place, |(_, place)| *place);
            fields.problem(place, "'entry' names no program", "the first element is the program");
            return None;
        };
        self.refuse_markup(fields, program, *place, "the program")?;
        let mut warnings = Vec::new();
        if program.contains('/') {
            self.note(program);
        }
        if self.loader.host.program(program, &self.loader.root).is_none() {
            if program.contains('/') && !self.loader.root.join(program).exists() {
                self.missing(program);
            }
            warnings.push(format!(
                "line {}: the program '{program}' is not there or is not executable",
                place.line
            ));
        }
        Some((Program::Named((*program).to_owned()), warnings))
    }

    /// What decides which code runs is fixed in the file.
    pub fn refuse_markup(&self, fields: &mut Fields<'_>, text: &str, place: Place, what: &str) -> Option<()> {
        if text.contains('\0') {
            fields.problem(place, format!("{what} holds a NUL character"), "remove it");
            return None;
        }
        if Template::parse(text, Target::Text).is_ok_and(|template| template.literal().is_some()) {
            return Some(());
        }
        fields.problem(
            place,
            format!("{what} must be fixed: a template here would let the caller choose what runs"),
            "use templates in the arguments only",
        );
        None
    }

    /// The runner for a child process.
    pub fn spawn(&self, fields: &mut Fields<'_>, spawn: Spawn<'_>) -> Option<Plan> {
        let Loader { root, host, launcher, .. } = self.loader;
        self.refuse_code(fields, &spawn)?;
        self.refuse_two_sources(fields)?;
        let (level, notes) = self.level(fields)?;
        let sandbox = sandbox_word(level);
        let (arguments, mut files) = self.arguments(fields, spawn.arguments)?;
        files.extend(spawn.files);
        // A bare name is searched for elsewhere.
        if let Program::Named(name) = &spawn.program
            && name.contains('/')
        {
            files.extend(self.yard_file(name));
        }
        let mut warnings = spawn.warnings;
        warnings.extend(
            self.common
                .env
                .iter()
                .filter(|name| host.var(name).is_none())
                .map(|name| format!("the variable '{name}' is to be passed on but is not set here")),
        );
        warnings.extend(self.loader.missing_secrets(&self.common.secrets));
        let runner = Box::new(CommandRunner {
            launcher: launcher.clone(),
            host: host.clone(),
            root: root.clone(),
            program: spawn.program,
            arguments,
            set: spawn.set,
            pass: self.common.env.clone(),
            declared: self.common.secrets.clone(),
            secrets: self.loader.secrets.clone(),
            contract: spawn.contract,
            confining: Confining {
                needs: self.common.needs.clone(),
                level,
                root: root.clone(),
                state: self.loader.state.clone(),
            },
        });
        Some(Plan { runner, files, warnings, notes, sandbox })
    }

    /// The arguments as templates, and the files of the yard among them.
    fn arguments(
        &self,
        fields: &mut Fields<'_>,
        given: Vec<(&str, Place)>,
    ) -> Option<(Vec<Template>, Vec<PathBuf>)> {
        let mut arguments = Vec::with_capacity(given.len());
        let mut files = Vec::new();
        for (text, place) in given {
            if text.contains('\0') {
                fields.problem(
                    place,
                    "an argument holds a NUL character, which no program can receive",
                    "remove it",
                );
                return None;
            }
            match Template::parse(text, Target::Text) {
                Ok(template) if !template.secrets_used().is_empty() => {
                    let what = "an argument uses 'secrets'; everyone on this machine can read arguments";
                    fields.problem(place, what, "let the tool read the variable that 'secrets' names");
                    return None;
                }
                Ok(template) => {
                    // What is filled in at each call is no file that could be known here.
                    files.extend(template.literal().and_then(|text| self.yard_file(text)));
                    arguments.push(template);
                }
                Err(what) => {
                    fields.problem(place, what, "templates look like {{ input.name }}");
                    return None;
                }
            }
        }
        Some((arguments, files))
    }

    fn refuse_two_sources(&self, fields: &mut Fields<'_>) -> Option<()> {
        let twice = self.common.secrets.iter().find(|secret| self.common.env.contains(&secret.variable));
        let Some(secret) = twice else { return Some(()) };
        let what = format!("the variable '{}' is both passed on and a secret", secret.variable);
        fields.problem(fields.place, what, "list it once");
        None
    }

    /// A value put into program text is program text: `sh -c "echo {{ input.x }}"` would run what callers send.
    fn refuse_code(&self, fields: &mut Fields<'_>, spawn: &Spawn<'_>) -> Option<()> {
        let program = match &spawn.program {
            Program::Named(name) | Program::Resolved { name, .. } => name.as_str(),
            Program::Prepared(_) => "python",
        };
        let texts = spawn.arguments.iter().map(|(text, _)| *text);
        let interpreted = std::iter::once(program).chain(texts).any(is_interpreter);
        for pair in spawn.arguments.windows(2) {
            let [(flag, _), (code, place)] = pair else { continue };
            let takes_code =
                matches!(*flag, "-c" | "-e" | "-r" | "-p" | "-E" | "--eval" | "--print" | "--command");
            if interpreted && takes_code && ["{{", "{%"].iter().any(|mark| code.contains(mark)) {
                let message = format!(
                    "a template inside the program text after '{flag}' would let callers run code of their own"
                );
                fields.problem(*place, message, "keep the text fixed and pass the value as an argument after it, for example sh -c 'echo \"$1\"' sh \"{{ input.x }}\"");
                return None;
            }
        }
        Some(())
    }

    /// The argument as a file of the yard, if it is one. If it could become one, that is noted.
    fn yard_file(&self, text: &str) -> Option<PathBuf> {
        let path = Path::new(text);
        let inside = path.is_relative() && !path.components().any(|part| part == Component::ParentDir);
        // Nobody names a file like an option, like a function or over several lines.
        if !inside
            || text.len() > MAX_PATH
            || text.is_empty()
            || text.starts_with('-')
            || text.contains(['\n', ':'])
        {
            return None;
        }
        self.note(path);
        let full = self.loader.root.join(path);
        if !full.exists() {
            self.missing(path);
            return None;
        }
        full.is_file().then(|| path.to_owned())
    }

    /// Compiles `schema.input` and `schema.output`, however the format calls them.
    pub fn schemas(&self, fields: &mut Fields<'_>, names: [&'static str; 2]) -> [Option<Compiled>; 2] {
        let Some(mut map) = fields.map("schema") else { return [None, None] };
        let compiled = names.map(|name| {
            let node: &Node = map.take(name)?;
            let compiled = schemas::compile(node, &self.loader.root, &self.file.source, self.notes);
            compiled.map_err(|problem| map.problems.push(problem)).ok()
        });
        fields.close(map);
        compiled
    }

    /// What makes two calls the same; only deterministic tools have it.
    pub fn cache_key(&self, fields: &mut Fields<'_>) -> Option<Box<dyn CacheKey>> {
        let mut template = None;
        if let Some(mut map) = fields.map("templating") {
            if let Some(node) = map.take("cacheKey") {
                template = cache_key_template(&mut map, node);
            }
            fields.close(map);
        }
        if !self.common.conduct.deterministic {
            if template.is_some() {
                let place = fields.place;
                fields.problem(
                    place,
                    "'templating.cacheKey' has no effect without 'deterministic: true'",
                    "add it, or remove the key",
                );
            }
            return None;
        }
        Some(match template {
            Some(template) => Box::new(Templated(template)),
            None => Box::new(Canonical),
        })
    }

    fn names(&self, fields: &mut Fields<'_>, id: Option<(String, Place)>) -> Option<(ToolName, ExposedName)> {
        let (id, place) = id?;
        let folder = self.file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let hint = "use letters, digits and '_'; dots separate modules";
        naming::names(&id, &folder).map_err(|what| fields.problem(place, what, hint)).ok()
    }

    /// Puts the parts together, or gives back every problem.
    pub fn finish(
        self,
        mut fields: Fields<'_>,
        unsupported: &[(&'static str, &str)],
        parts: Parts,
    ) -> Result<Checked, Vec<Problem>> {
        let names = self.names(&mut fields, parts.id);
        if parts.kind.is_none() {
            fields.leave_rest();
        }
        let problems = fields.finish(unsupported);
        let (Some((name, exposed)), Some(kind), Some(plan), true) =
            (names, parts.kind, parts.plan, problems.is_empty())
        else {
            return Err(problems);
        };
        let [input, output] = parts.schemas;
        let mut files = plan.files;
        files.extend([&input, &output].into_iter().flatten().flat_map(|schema| schema.files.iter().cloned()));
        let root = &self.loader.root;
        files.iter().for_each(|file| self.note(file));
        let digest = digest::digest(self.bytes, root, &files, |path| self.notes.missing(path));
        let content = Content { root: root.clone(), manifest: self.file.path.clone(), files, digest };
        let made = Arc::new(Made::new(self.notes.take(), Some(content)));
        let split = |schema: Option<Compiled>| {
            schema.map_or((None, None), |schema| (Some(schema.text), Some(schema.check)))
        };
        let ((input_schema, input), (output_schema, output)) = (split(input), split(output));
        let Common { about, annotations, conduct, timing, examples, enabled, .. } = self.common;
        let controls = self.loader.controls(&name, &conduct);
        let spec = ToolSpec {
            name,
            exposed,
            kind: kind.name(),
            source: self.file.source.clone(),
            about,
            annotations,
            timing,
            limits: parts.limits,
            conduct,
            sandbox: plan.sandbox,
            examples,
            digest,
            input_schema,
            output_schema,
        };
        let runner = Box::new(Stamped { inner: plan.runner, made: made.clone() });
        let entry = Arc::new(Entry { spec, runner, input, output, cache_key: parts.cache_key, controls });
        Ok(Checked {
            candidate: Candidate { entry, enabled },
            made,
            warnings: plan.warnings,
            notes: plan.notes,
        })
    }
}

/// What a format's reader found, problems aside.
pub struct Parts {
    pub id: Option<(String, Place)>,
    pub kind: Option<&'static dyn Kind>,
    pub plan: Option<Plan>,
    pub limits: Limits,
    pub schemas: [Option<Compiled>; 2],
    pub cache_key: Option<Box<dyn CacheKey>>,
}

/// A runner that knows whether the files it was made of are still the same.
struct Stamped {
    inner: Box<dyn Runner>,
    made: Arc<Made>,
}

impl Runner for Stamped {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        self.inner.run(run)
    }

    fn prepare<'a>(&'a self) -> PrepareFuture<'a> {
        self.inner.prepare()
    }

    fn files(&self) -> Option<u64> {
        self.made.is_current().then(|| self.made.stamps().traces())
    }

    fn secrets_mark(&self) -> Option<[u8; 32]> {
        self.inner.secrets_mark()
    }
}

fn cache_key_template(map: &mut Fields<'_>, node: &Node) -> Option<Template> {
    let toolyard_wire::doc::Value::Text(text) = &node.value else {
        return map.wrong(node, "cacheKey", "a text");
    };
    let template = Template::parse(text, Target::Text);
    template.map_err(|what| map.problem(node.place, what, "templates look like {{ input.name }}")).ok()
}

/// Programs that run text given on their command line.
fn is_interpreter(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or(text);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(
        plain,
        "sh" | "bash"
            | "dash"
            | "zsh"
            | "ksh"
            | "fish"
            | "ash"
            | "busybox"
            | "python"
            | "pypy"
            | "node"
            | "nodejs"
            | "deno"
            | "bun"
            | "php"
            | "perl"
            | "ruby"
            | "lua"
            | "awk"
            | "gawk"
            | "mawk"
            | "osascript"
            | "pwsh"
    )
}
