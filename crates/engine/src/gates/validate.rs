//! Gate: arguments and results keep the tool's schemas.

use crate::registry::Entry;
use toolyard_protocol::{Check, Error, ErrorKind, Outcome, Payload, Violation};

pub fn input(entry: &Entry, arguments: &Payload) -> Result<(), Error> {
    check(entry.input.as_deref(), arguments).map_err(|violations| {
        let what = format!("the arguments do not fit '{}'", entry.spec.exposed);
        broken(ErrorKind::InvalidInput, what, violations).hint("'toolyard show' prints the input schema")
    })
}

pub fn output(entry: &Entry, outcome: Outcome) -> Result<Outcome, Error> {
    if let Some(data) = outcome.data() {
        check(entry.output.as_deref(), data).map_err(|violations| {
            let what = format!("the result of '{}' does not fit its output schema", entry.spec.exposed);
            broken(ErrorKind::InvalidOutput, what, violations).hint("mend the tool or its output schema")
        })?;
    }
    Ok(outcome)
}

fn check(schema: Option<&dyn Check>, payload: &Payload) -> Result<(), Vec<Violation>> {
    schema.map_or(Ok(()), |schema| schema.check(payload))
}

fn broken(kind: ErrorKind, what: String, violations: Vec<Violation>) -> Error {
    let first = violations.first().map_or(String::new(), |violation| {
        let pointer = if violation.pointer.is_empty() { "the value itself" } else { &violation.pointer };
        format!(": at {pointer}: {}", violation.message)
    });
    let more =
        if violations.len() > 1 { format!(" (and {} more)", violations.len() - 1) } else { String::new() };
    Error::new(kind, format!("{what}{first}{more}")).with(|details| details.violations = violations)
}
