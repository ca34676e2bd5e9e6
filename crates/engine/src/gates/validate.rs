//! Gate: arguments and results keep the tool's schemas.

use super::Ran;
use crate::registry::Entry;
use toolyard_protocol::{Check, Error, ErrorKind, Payload, Violation};

pub fn input(entry: &Entry, arguments: &Payload) -> Result<(), Error> {
    check(entry.input.as_deref(), arguments).map_err(|violations| {
        let violations = violations.into_iter().map(name_arguments).collect();
        let what = format!("invalid arguments for '{}'", entry.spec.exposed);
        Error::invalid(ErrorKind::InvalidInput, what, violations)
            .hint("'toolyard show' prints the input schema")
    })
}

pub fn output(ran: Ran) -> Result<Ran, Error> {
    if let Some(data) = ran.outcome.data() {
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

/// The properties of the whole value are the arguments.
fn name_arguments(violation: Violation) -> Violation {
    let message = match violation.message.split_once(" property ") {
        Some((what @ ("missing" | "unknown"), name)) if violation.pointer.is_empty() => {
            format!("{what} argument {name}")
        }
        _ => return violation,
    };
    Violation { message, ..violation }
}
