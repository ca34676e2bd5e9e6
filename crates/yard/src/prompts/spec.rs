//! `<name>.spec.yaml`: a prompt's name, its arguments and how its messages are built.

use super::files::PromptFiles;
use super::message::{self, Message};
use crate::tools::schemas::{self, Compiled};
use std::path::{Component, Path};
use toolyard_engine::Registry;
use toolyard_formats::doc::{Fields, Node, Position, Problem, Value};
use toolyard_protocol::{ExposedName, Payload, PromptArgument};
use toolyard_wire::prompt;

/// Suggestions that may be listed for one argument.
const MAX_CHOICES: usize = 1000;

/// A checked spec; the default is used for a prompt without a spec file.
#[derive(Default)]
pub struct Spec {
    /// The name on MCP.
    pub expose: Option<(ExposedName, Position)>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The schema of the arguments.
    pub inputs: Option<Compiled>,
    /// Passed to clients as written.
    pub constraints: Option<Payload>,
    /// Without messages and without a tool, the prompt consists of its body.
    pub messages: Option<Vec<Message>>,
    /// The tool that builds the messages.
    pub tool: Option<ToolRef>,
    pub complete: Vec<(String, CompletionSource)>,
}

/// A tool by its name, and where it is named.
pub struct ToolRef {
    pub name: String,
    pub position: Position,
}

/// Where suggestions for an argument come from.
pub enum CompletionSource {
    Values(Vec<String>),
    Tool(ToolRef),
}

/// The file that a spec is read from.
pub struct SpecContext<'a> {
    pub files: &'a PromptFiles<'a>,
    /// The spec itself, relative to the yard.
    pub source: &'a str,
}

impl SpecContext<'_> {
    /// Reads a file below the spec's folder; the error continues a sentence that starts with the file name.
    pub fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        let relative = Path::new(path);
        if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err("lies outside the folder of the spec".to_owned());
        }
        let folder = Path::new(self.source).parent().unwrap_or(Path::new(""));
        self.files.read(&folder.join(relative))
    }
}

impl Spec {
    pub fn read(node: &Node, context: &SpecContext<'_>) -> Result<Spec, Vec<Problem>> {
        let mut fields = Fields::open(node, "").map_err(|problem| vec![problem])?;
        let spec = Spec {
            expose: expose(&mut fields),
            title: fields.text("title").map(str::to_owned),
            description: fields.text("description").map(str::to_owned),
            inputs: inputs(&mut fields, context),
            constraints: constraints(&mut fields),
            messages: message::read(&mut fields, context),
            tool: fields
                .text_with_position("tool")
                .map(|(name, position)| ToolRef { name: name.to_owned(), position }),
            complete: complete(&mut fields),
        };
        if let Some(tool) = spec.tool.as_ref().filter(|_| spec.messages.is_some()) {
            fields.problem(tool.position, "'tool' and 'messages' exclude each other", "remove one of them");
        }
        let mut problems = fields.finish(&[]);
        problems.extend(spec.unknown_completions(node.position));
        if problems.is_empty() { Ok(spec) } else { Err(problems) }
    }

    /// The schema of the arguments: its own, else that of the tool that takes them.
    pub fn inputs(&self, tools: &Registry) -> Option<Payload> {
        match (&self.inputs, &self.tool) {
            (Some(inputs), _) => Some(inputs.text.clone()),
            (None, Some(tool)) => tools.find(&tool.name)?.spec.input_schema.clone(),
            (None, None) => None,
        }
    }

    /// The arguments that the schema names.
    pub fn arguments(&self) -> Vec<PromptArgument> {
        self.inputs.as_ref().map(|inputs| prompt::arguments(&inputs.text)).unwrap_or_default()
    }

    /// The tools it needs.
    pub fn tools(&self) -> impl Iterator<Item = &ToolRef> {
        let completing = self.complete.iter().filter_map(|(_, choices)| match choices {
            CompletionSource::Tool(tool) => Some(tool),
            CompletionSource::Values(_) => None,
        });
        self.tool.iter().chain(completing)
    }

    /// Whether a message uses the version's body.
    pub fn uses_body(&self) -> bool {
        match &self.messages {
            Some(messages) => messages.iter().any(Message::is_body),
            None => self.tool.is_none(),
        }
    }

    fn unknown_completions(&self, position: Position) -> Vec<Problem> {
        // The tool's schema declares the arguments.
        if self.inputs.is_none() && self.tool.is_some() {
            return Vec::new();
        }
        let known = self.arguments();
        let unknown =
            self.complete.iter().filter(|(name, _)| !known.iter().any(|argument| argument.name == *name));
        let describe = |(name, _): &(String, CompletionSource)| {
            Problem::new(position, format!("'complete' names '{name}', which 'inputs' does not declare"))
        };
        unknown.map(describe).collect()
    }
}

fn expose(fields: &mut Fields<'_>) -> Option<(ExposedName, Position)> {
    let (text, position) = fields.text_with_position("expose")?;
    let name = ExposedName::parse(text);
    let wrong = "1 to 64 letters, digits, '_', '.' and '-'";
    name.map_err(|_| fields.problem(position, format!("'expose' {text:?} is not a valid name"), wrong))
        .ok()
        .map(|name| (name, position))
}

fn inputs(fields: &mut Fields<'_>, context: &SpecContext<'_>) -> Option<Compiled> {
    let node = fields.take("inputs")?;
    let compiled = schemas::compile(node, context.files.folder, context.source, &context.files.recorder);
    let compiled = compiled.map_err(|problem| fields.problems.push(problem)).ok()?;
    context.files.hash_bytes(compiled.text.bytes());
    Some(compiled)
}

fn constraints(fields: &mut Fields<'_>) -> Option<Payload> {
    let node = fields.take("constraints")?;
    match &node.value {
        Value::Map(_) => Some(Payload::json(node.to_json())),
        _ => fields.wrong(node, "constraints", "a map"),
    }
}

fn complete(fields: &mut Fields<'_>) -> Vec<(String, CompletionSource)> {
    let Some(node) = fields.take("complete") else { return Vec::new() };
    let Value::Map(entries) = &node.value else {
        return fields.wrong(node, "complete", "a map of arguments").unwrap_or_default();
    };
    let read = entries.iter().filter_map(|(key, node)| Some((key.text.clone(), choices(fields, node)?)));
    read.collect()
}

fn choices(fields: &mut Fields<'_>, node: &Node) -> Option<CompletionSource> {
    if let Value::List(items) = &node.value {
        if items.len() > MAX_CHOICES {
            let what = format!("'complete' offers {} texts; at most {MAX_CHOICES} are allowed", items.len());
            fields.problem(node.position, what, "let a tool choose: {tool: NAME}");
            return None;
        }
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push(text.clone()),
                Value::Number(digits) => texts.push(digits.clone()),
                _ => return fields.wrong(item, "complete", "a list of texts, or {tool: NAME}"),
            }
        }
        return Some(CompletionSource::Values(texts));
    }
    let mut map = Fields::open(node, "complete").map_err(|problem| fields.problems.push(problem)).ok()?;
    let tool = map.required_text("tool", "write a list of texts, or {tool: NAME}");
    fields.close(map);
    tool.map(|(name, position)| CompletionSource::Tool(ToolRef { name: name.to_owned(), position }))
}
