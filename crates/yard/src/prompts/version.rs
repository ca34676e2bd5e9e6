//! One version of a prompt: its arguments checked, its messages filled in.

use super::message::Message;
use super::spec::Spec;
use std::sync::Arc;
use toolyard_formats::template::{Input, Template};
use toolyard_protocol::{Error, ErrorKind, Payload, RenderedPrompt, Violation};
use toolyard_wire::prompt::{self, Messages};

pub struct Version {
    pub spec: Arc<Spec>,
    /// Where the messages, or one of them, say the version's own file.
    pub body: Option<Template>,
}

impl Version {
    /// Arguments as the schema wants them; `name` is for messages.
    pub fn check(&self, name: &str, arguments: Payload) -> Result<Payload, Error> {
        let Some(inputs) = &self.spec.inputs else {
            // The tool's own schema is the rule, in the pipeline.
            if self.spec.tool.is_some() || is_empty(&arguments) {
                return Ok(arguments);
            }
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the prompt '{name}' takes no arguments"),
            )
            .hint("its spec declares no 'inputs'"));
        };
        let arguments = prompt::coerce_arguments(arguments, &inputs.text);
        inputs.check.check(&arguments).map_err(|violations| invalid_arguments(name, violations))?;
        Ok(arguments)
    }

    /// Fills in the messages; `arguments` have been checked.
    pub fn fill(&self, arguments: &Payload) -> Result<RenderedPrompt, Error> {
        let input = Input::new(arguments)?;
        let mut messages = Messages::default();
        match &self.spec.messages {
            Some(parts) => {
                parts.iter().try_for_each(|part| part.fill(self.body.as_ref(), &input, &mut messages))?;
            }
            None => Message::body().fill(self.body.as_ref(), &input, &mut messages)?,
        }
        Ok(RenderedPrompt { description: self.spec.description.clone(), messages: messages.finish()? })
    }
}

fn is_empty(arguments: &Payload) -> bool {
    toolyard_formats::json::members(arguments.bytes())
        .is_ok_and(|members| members.is_some_and(|m| m.is_empty()))
}

fn invalid_arguments(name: &str, violations: Vec<Violation>) -> Error {
    let first = violations.first().map_or(String::new(), |violation| {
        let pointer =
            if violation.pointer.is_empty() { "the arguments themselves" } else { &violation.pointer };
        format!(": at {pointer}: {}", violation.message)
    });
    let more =
        if violations.len() > 1 { format!(" (and {} more)", violations.len() - 1) } else { String::new() };
    Error::new(ErrorKind::InvalidInput, format!("the arguments do not fit the prompt '{name}'{first}{more}"))
        .hint("the list of prompts names the arguments of each")
        .with(|details| details.violations = violations)
}
