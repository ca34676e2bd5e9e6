//! Gates: arguments fit the tool's input limit; arguments and results match its schemas.

use super::Ran;
use crate::registry::Entry;
use toolyard_protocol::{Check, Error, ErrorKind, Payload, ToolSpec, Violation};

pub fn size(spec: &ToolSpec, arguments: &Payload) -> Result<(), Error> {
    if arguments.len() <= spec.limits.input {
        return Ok(());
    }
    let message = format!(
        "the arguments have {} bytes; '{}' takes at most {}",
        arguments.len(),
        spec.exposed,
        spec.limits.input
    );
    let hint = match spec.kind {
        // Builtins have no tool file.
        "builtin" => "send less",
        _ => "send less, or raise 'limits.input' in the tool's file",
    };
    Err(Error::new(ErrorKind::InputTooLarge, message).hint(hint))
}

pub fn input(entry: &Entry, arguments: &Payload) -> Result<(), Error> {
    check(entry.input.as_deref(), arguments).map_err(|violations| {
        let tool = format!("'{}'", entry.spec.exposed);
        Error::invalid_arguments(&tool, violations).hint("'toolyard show' prints the input schema")
    })
}

pub fn output(ran: Ran) -> Result<Ran, Error> {
    if let Some(data) = ran.outcome.data().filter(|_| !ran.is_validated) {
        check(ran.entry.output.as_deref(), data).map_err(|violations| {
            let what = format!("the result of '{}' does not match its output schema", ran.entry.spec.exposed);
            Error::invalid(ErrorKind::InvalidOutput, what, violations)
                .hint("fix the tool or its output schema")
        })?;
    }
    Ok(ran)
}

fn check(schema: Option<&dyn Check>, payload: &Payload) -> Result<(), Vec<Violation>> {
    schema.map_or(Ok(()), |schema| schema.check(payload))
}
