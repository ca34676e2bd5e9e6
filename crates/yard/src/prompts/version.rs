//! One version of a prompt: checks the arguments and fills in the messages.

use super::message::Message;
use super::spec::Spec;
use std::sync::Arc;
use toolyard_formats::template::{Input, Template};
use toolyard_protocol::{Error, ErrorKind, Payload, RenderedPrompt, Violation};
use toolyard_wire::prompt::{self, Messages};

pub struct Version {
    pub spec: Arc<Spec>,
    /// The version's Markdown file, if a message uses it.
    pub body: Option<Template>,
}

impl Version {
    /// Coerces the arguments to the schema's types and checks them; `name` is for error messages.
    pub fn check(&self, name: &str, arguments: Payload) -> Result<Payload, Error> {
        let Some(inputs) = &self.spec.inputs else {
            // The pipeline checks them against the tool's schema.
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
    Error::invalid_arguments(&format!("the prompt '{name}'"), violations)
        .hint("the list of prompts names the arguments of each")
}
