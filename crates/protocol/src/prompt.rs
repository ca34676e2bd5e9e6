//! Prompts, their arguments, and completions for the arguments.

use crate::{Extra, Payload};

/// One prompt, as a list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub arguments: Vec<PromptArgument>,
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub description: Option<String>,
    /// A JSON array of `{role, content}` in MCP's shape.
    pub messages: Payload,
}

/// A prompt loaded from files, with every available version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPack {
    pub domain: String,
    pub name: String,
    /// Oldest first, each with the description from its spec.
    pub versions: Vec<(u32, Option<String>)>,
}

/// The unrendered source of one version of such a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptSource {
    /// None when the messages are generated without a text template.
    pub body: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub inputs: Option<Payload>,
    /// A JSON object that is passed through unchanged.
    pub constraints: Option<Payload>,
}

/// A request for completions of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRequest {
    /// The argument or template variable.
    pub argument: String,
    /// The text typed so far.
    pub value: String,
    /// The values of other arguments: a JSON object of strings.
    pub known: Payload,
}

/// Suggestions, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// A client receives the first 100.
    pub values: Vec<String>,
    pub total: Option<u64>,
}
