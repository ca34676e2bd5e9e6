//! Reads one tool file into a checked candidate, or into the list of all its problems.

use super::inputs::{Content, Inputs};
use super::load_cache::InputRecorder;
use super::program_text::templated_code;
use super::schemas::{self, Compiled, SchemaFolder};
use super::shared_fields::SharedFields;
use super::{Loader, digest, naming, walk::ToolFile};
use crate::kinds::{self, FileFormat, Kind, Runnable};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::{Candidate, Entry, PrepareFuture, Run, RunFuture, Runner};
use toolyard_formats::cache_key::{CanonicalKey, TemplateKey};
use toolyard_formats::doc::{Fields, Node, Position, Problem};
use toolyard_formats::template::{Target, Template};
use toolyard_protocol::text::nearest;
use toolyard_protocol::{CacheKey, ExposedName, Guarded, Limits, Sandbox, ToolName, ToolSpec};
use toolyard_runtimes::command::{CommandRunner, Program, protocol_sandbox};
use toolyard_runtimes::secrets::SecretBinding;
use toolyard_wire::child_io::Contract;

/// An argument longer than this is not taken for a path.
const MAX_PATH: usize = 1024;

/// One tool file and its surroundings.
pub struct ToolReader<'a> {
    pub loader: &'a Loader,
    pub file: &'a ToolFile,
    pub bytes: &'a [u8],
    pub shared: SharedFields,
    recorder: &'a InputRecorder,
}

/// Where a document came from.
pub struct FileContext<'a> {
    pub loader: &'a Loader,
    pub file: &'a ToolFile,
    pub bytes: &'a [u8],
    pub recorder: &'a InputRecorder,
}

/// A file that passed every check.
pub struct Checked {
    pub candidate: Candidate,
    pub inputs: Arc<Inputs>,
    pub warnings: Vec<String>,
    /// Facts for the owner that are not problems.
    pub notes: Vec<String>,
}

/// The child process that a kind describes.
pub struct ProcessSpec<'n> {
    pub program: Program,
    /// The arguments after the program; may hold templates.
    pub arguments: Vec<(&'n str, Position)>,
    pub contract: Contract,
    /// Files besides those named in the arguments.
    pub files: Vec<PathBuf>,
    pub warnings: Vec<String>,
}

impl<'a> ToolReader<'a> {
    pub fn new(
        FileContext { loader, file, bytes, recorder }: FileContext<'a>,
        shared: SharedFields,
    ) -> ToolReader<'a> {
        ToolReader { loader, file, bytes, shared, recorder }
    }
}

impl ToolReader<'_> {
    /// Records `path` (relative to the yard; a file, a folder or nothing) as an input of this tool: when it
    /// changes, appears or disappears, the tool is read again. Call it before reading the path.
    pub fn track(&self, path: impl AsRef<Path>) {
        self.recorder.add(self.loader.root.join(path));
    }

    /// Records that `path` did not exist when it was needed.
    pub fn track_missing(&self, path: impl AsRef<Path>) {
        self.recorder.missing(self.loader.root.join(path));
    }

    /// The kind that `field` names, or a problem that lists the kinds of the format.
    pub fn kind(fields: &mut Fields<'_>, field: &'static str, format: FileFormat) -> Option<&'static Kind> {
        let kinds = || kinds::KINDS.iter().copied().filter(|kind| kind.format == format);
        let all = format!("one of: {}", kinds().map(|kind| kind.name).collect::<Vec<_>>().join(", "));
        let (name, position) = fields.required_text(field, &all)?;
        let found = kinds().find(|kind| kind.name == name);
        if found.is_none() {
            let hint = match nearest(name, kinds().map(|kind| kind.name)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => all,
            };
            fields.problem(position, format!("'{field}' is '{name}', which does not exist"), &hint);
        }
        found
    }

    /// The first element of `argv` as the program, which must not be a template.
    pub fn named_program(
        &self,
        fields: &mut Fields<'_>,
        argv: &[(&str, Position)],
    ) -> Option<(Program, Vec<String>)> {
        let Some((program, position)) = argv.first().filter(|(program, _)| !program.trim().is_empty()) else {
            let position = argv.first().map_or(fields.position, |(_, position)| *position);
            fields.problem(position, "'entry' names no program", "the first element is the program");
            return None;
        };
        self.require_literal(fields, program, *position, "the program")?;
        let mut warnings = Vec::new();
        if program.contains('/') {
            self.track(program);
        }
        if self.loader.find_program(program).is_none() {
            if program.contains('/') && !self.loader.root.join(program).exists() {
                self.track_missing(program);
            }
            warnings.push(format!(
                "line {}: the program '{program}' was not found or is not executable",
                position.line
            ));
        }
        Some((Program::Named((*program).to_owned()), warnings))
    }

    /// Text that decides which code runs must not be a template.
    pub fn require_literal(
        &self,
        fields: &mut Fields<'_>,
        text: &str,
        position: Position,
        what: &str,
    ) -> Option<()> {
        if text.contains('\0') {
            fields.problem(position, format!("{what} holds a NUL character"), "remove it");
            return None;
        }
        if Template::parse(text, Target::Text).is_ok_and(|template| template.literal().is_some()) {
            return Some(());
        }
        fields.problem(
            position,
            format!("{what} must be fixed: a template here would let the caller choose what runs"),
            "use templates in the arguments only",
        );
        None
    }

    /// The runner for a child process.
    pub fn process(&self, fields: &mut Fields<'_>, process: ProcessSpec<'_>) -> Option<Runnable> {
        let Loader { root, host, launcher, .. } = self.loader;
        self.reject_templated_code(fields, &process)?;
        self.reject_duplicate_variable(fields)?;
        let words = words(&process);
        let (level, mut notes) = self.sandbox_level(fields)?;
        let sandbox = protocol_sandbox(level);
        let arguments = match program_name(&process.program) {
            name if kinds::is_python(name) => kinds::with_yard_last(process.arguments),
            _ => process.arguments,
        };
        let (arguments, mut files) = self.arguments(fields, arguments)?;
        files.extend(process.files);
        // A bare name is looked up in PATH.
        if let Program::Named(name) = &process.program
            && name.contains('/')
        {
            files.extend(self.yard_file(name));
        }
        let mut warnings = process.warnings;
        warnings.extend(
            self.shared
                .env
                .iter()
                .filter(|name| host.var(name).is_none())
                .map(|name| format!("the variable '{name}' is to be passed on but is not set")),
        );
        warnings.extend(self.loader.missing_secrets(&self.shared.secrets));
        self.remark_on_network(level, &mut notes);
        self.remark_on_grants(&mut warnings, &mut notes);
        self.remark_on_proxy(program_name(&process.program), &mut warnings, &mut notes);
        let sandbox_builder = self.sandbox_builder(level);
        let permissions = self.permissions(&sandbox_builder, &process.program);
        let file_use = self.file_use(words, &process.program, &permissions);
        let runner = Box::new(CommandRunner {
            launcher: launcher.clone(),
            host: host.clone(),
            root: root.clone(),
            program: process.program,
            arguments,
            passed_env: self.shared.env.clone(),
            secret_bindings: self.shared.secrets.clone(),
            secrets: self.loader.secrets.clone(),
            contract: process.contract,
            sandbox_builder,
        });
        Some(Runnable { runner, files, warnings, notes, sandbox, permissions, file_use })
    }

    /// The arguments as templates, and the files of the yard among them.
    fn arguments(
        &self,
        fields: &mut Fields<'_>,
        given: Vec<(&str, Position)>,
    ) -> Option<(Vec<Template>, Vec<PathBuf>)> {
        let mut arguments = Vec::with_capacity(given.len());
        let mut files = Vec::new();
        for (text, position) in given {
            if text.contains('\0') {
                fields.problem(
                    position,
                    "an argument holds a NUL character, which no program can receive",
                    "remove it",
                );
                return None;
            }
            match Template::parse(text, Target::Text) {
                Ok(template) if !template.secrets_used().is_empty() => {
                    let what = "an argument uses 'secrets'; everyone on this machine can read arguments";
                    fields.problem(position, what, "let the tool read the variable that 'secrets' names");
                    return None;
                }
                Ok(template) => {
                    // Only a literal can name a file: templates are filled in at each call.
                    files.extend(template.literal().and_then(|text| self.yard_file(text)));
                    arguments.push(template);
                }
                Err(what) => {
                    fields.problem(position, what, "templates look like {{ input.name }}");
                    return None;
                }
            }
        }
        Some((arguments, files))
    }

    fn reject_duplicate_variable(&self, fields: &mut Fields<'_>) -> Option<()> {
        let twice = self.shared.secrets.iter().find(|secret| self.shared.env.contains(&secret.variable));
        let Some(secret) = twice else { return Some(()) };
        let what = format!("the variable '{}' is both passed on and a secret", secret.variable);
        fields.problem(fields.position, what, "list it once");
        None
    }

    fn reject_templated_code(&self, fields: &mut Fields<'_>, process: &ProcessSpec<'_>) -> Option<()> {
        let texts: Vec<&str> = process.arguments.iter().map(|(text, _)| *text).collect();
        let Some(found) = templated_code(program_name(&process.program), &texts) else { return Some(()) };
        let hint = "keep it fixed and pass the value as a later argument, for example sh -c 'echo \"$1\"' sh \"{{ input.x }}\", or read it from stdin";
        fields.problem(process.arguments[found.argument].1, found.message, hint);
        None
    }

    /// The argument as a file of the yard, if it is one. A path that could become one is recorded.
    fn yard_file(&self, text: &str) -> Option<PathBuf> {
        let path = Path::new(text);
        let inside = path.is_relative() && !path.components().any(|part| part == Component::ParentDir);
        // Options, `module:function` and text of several lines are not file names.
        if !inside
            || text.len() > MAX_PATH
            || text.is_empty()
            || text.starts_with('-')
            || text.contains(['\n', ':'])
        {
            return None;
        }
        self.track(path);
        let full = self.loader.root.join(path);
        if !full.exists() {
            self.track_missing(path);
            return None;
        }
        full.is_file().then(|| path.to_owned())
    }

    /// Compiles the input and the output schema, by the names that the format gives them.
    pub fn schemas(&self, fields: &mut Fields<'_>, names: [&'static str; 2]) -> [Option<Compiled>; 2] {
        let Some(mut map) = fields.map("schema") else { return [None, None] };
        let folder = SchemaFolder { root: &self.loader.root, state: &self.loader.places.state };
        let compiled = names.map(|name| {
            let node: &Node = map.take(name)?;
            let compiled = schemas::compile(node, folder, &self.file.source, self.recorder);
            compiled.map_err(|problem| map.problems.push(problem)).ok()
        });
        fields.close(map);
        compiled
    }

    /// How the cache key of a call is computed; only deterministic tools have one.
    pub fn cache_key(&self, fields: &mut Fields<'_>) -> Option<Box<dyn CacheKey>> {
        let mut template = None;
        if let Some(mut map) = fields.map("templating") {
            if let Some(node) = map.take("cacheKey") {
                template = cache_key_template(&mut map, node);
            }
            fields.close(map);
        }
        if !self.shared.behavior.deterministic {
            if template.is_some() {
                let position = fields.position;
                fields.problem(
                    position,
                    "'templating.cacheKey' has no effect without 'deterministic: true'",
                    "add it, or remove the key",
                );
            }
            return None;
        }
        Some(match template {
            Some(template) => Box::new(TemplateKey(template)),
            None => Box::new(CanonicalKey),
        })
    }

    fn names(
        &self,
        fields: &mut Fields<'_>,
        id: Option<(String, Position)>,
    ) -> Option<(ToolName, ExposedName)> {
        let (id, position) = id?;
        let folder = self.file.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let hint = "use letters, digits and '_'; dots separate modules";
        naming::names(&id, &folder).map_err(|what| fields.problem(position, what, hint)).ok()
    }

    /// Assembles the parts, or returns every problem.
    pub fn finish(
        self,
        mut fields: Fields<'_>,
        unsupported: &[(&'static str, &str)],
        parts: Parts,
    ) -> Result<Checked, Vec<Problem>> {
        let names = self.names(&mut fields, parts.id);
        if parts.kind.is_none() {
            fields.ignore_rest();
        }
        let position = fields.position;
        let problems = fields.finish(unsupported);
        let (Some((name, exposed)), Some(kind), Some(runnable), true) =
            (names, parts.kind, parts.runnable, problems.is_empty())
        else {
            return Err(problems);
        };
        let [input, output] = parts.schemas;
        let mut files = runnable.files;
        let root = &self.loader.root;
        let mut file_use = runnable.file_use;
        for schema in [&input, &output].into_iter().flatten().flat_map(|schema| &schema.files) {
            file_use.parts.push(root.join(schema));
            files.push(schema.clone());
        }
        files.iter().for_each(|file| self.track(file));
        let digest = digest::digest(self.bytes, root, &files, |path| self.recorder.missing(path));
        let digest = digest.map_err(|error| {
            let hint = "keep large data in a folder of its own, apart from code";
            vec![Problem::new(position, error.to_string()).hint(hint)]
        })?;
        let manifest = self.file.path.clone();
        let content = Content { root: root.clone(), manifest, files, digest, file_use };
        let inputs = Arc::new(Inputs::new(self.recorder.take(), Some(content)));
        let split = |schema: Option<Compiled>| {
            schema.map_or((None, None), |schema| (Some(schema.text), Some(schema.check)))
        };
        let ((input_schema, input), (output_schema, output)) = (split(input), split(output));
        let SharedFields { about, annotations, mut behavior, timing, examples, enabled, secrets, .. } =
            self.shared;
        behavior.guarded = guarded(runnable.sandbox, &secrets).or(behavior.guarded);
        let limiter = self.loader.limiter(&name, &behavior);
        let spec = ToolSpec {
            name,
            exposed,
            kind: kind.name,
            source: self.file.source.clone(),
            about,
            annotations,
            timing,
            limits: parts.limits,
            behavior,
            sandbox: runnable.sandbox,
            permissions: runnable.permissions,
            examples,
            digest,
            input_schema,
            output_schema,
        };
        let runner = Box::new(FileTrackingRunner { inner: runnable.runner, inputs: inputs.clone() });
        let entry = Arc::new(Entry { spec, runner, input, output, cache_key: parts.cache_key, limiter });
        Ok(Checked {
            candidate: Candidate { entry, enabled },
            inputs,
            warnings: runnable.warnings,
            notes: runnable.notes,
        })
    }
}

/// The program and its arguments, without our own text.
fn words(process: &ProcessSpec<'_>) -> Vec<String> {
    let arguments = process.arguments.iter().map(|(text, _)| *text).filter(|text| !kinds::is_own_text(text));
    std::iter::once(program_name(&process.program)).chain(arguments).map(str::to_owned).collect()
}

/// The program as the tool file names it; an environment is one of Python.
fn program_name(program: &Program) -> &str {
    match program {
        Program::Named(name) | Program::Resolved { name, .. } => name,
        Program::Prepared(_) => "python",
    }
}

/// Why callers need the yard's token, unless the tool's file asks for it anyway.
fn guarded(sandbox: Sandbox, secrets: &[SecretBinding]) -> Option<Guarded> {
    match sandbox {
        Sandbox::None => Some(Guarded::Unconfined),
        _ => (!secrets.is_empty()).then_some(Guarded::Secrets),
    }
}

/// What a format's reader found, problems aside.
pub struct Parts {
    pub id: Option<(String, Position)>,
    pub kind: Option<&'static Kind>,
    pub runnable: Option<Runnable>,
    pub limits: Limits,
    pub schemas: [Option<Compiled>; 2],
    pub cache_key: Option<Box<dyn CacheKey>>,
}

/// A runner that knows whether its input files are unchanged.
struct FileTrackingRunner {
    inner: Box<dyn Runner>,
    inputs: Arc<Inputs>,
}

impl Runner for FileTrackingRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        self.inner.run(run)
    }

    fn prepare<'a>(&'a self) -> PrepareFuture<'a> {
        self.inner.prepare()
    }

    fn files_version(&self) -> Option<u64> {
        self.inputs.is_current().then(|| self.inputs.stamps().folder_fingerprint())
    }

    fn announces_start(&self) -> bool {
        self.inner.announces_start()
    }

    fn secrets_fingerprint(&self) -> Option<[u8; 32]> {
        self.inner.secrets_fingerprint()
    }
}

fn cache_key_template(map: &mut Fields<'_>, node: &Node) -> Option<Template> {
    let toolyard_formats::doc::Value::Text(text) = &node.value else {
        return map.wrong(node, "cacheKey", "a text");
    };
    let template = Template::parse(text, Target::Text);
    template.map_err(|what| map.problem(node.position, what, "templates look like {{ input.name }}")).ok()
}
