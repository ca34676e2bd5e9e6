//! Prompts a client can fill in, and suggestions for their arguments.

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

/// A prompt that comes from files, with every version that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPack {
    pub domain: String,
    pub name: String,
    /// Oldest first, each with what its spec says of it.
    pub versions: Vec<(u32, Option<String>)>,
}

/// One version of such a prompt as it is written, with nothing filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptSource {
    /// None when its messages are made without a text of its own.
    pub body: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub inputs: Option<Payload>,
    /// A JSON object that we only pass on.
    pub constraints: Option<Payload>,
}

/// What is being completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRequest {
    /// The argument or template variable.
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// The other arguments that are known already: a JSON object of strings.
    pub known: Payload,
}

/// Suggestions, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// A client is shown the first hundred.
    pub values: Vec<String>,
    pub total: Option<u64>,
}
