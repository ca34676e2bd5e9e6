//! Gate: arguments and results keep the tool's schemas.

use super::Ran;
use crate::registry::Entry;
use toolyard_protocol::{Check, Error, ErrorKind, Payload, Violation};

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
