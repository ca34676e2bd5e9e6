//! Gate: the arguments fit the tool's input limit.

use toolyard_protocol::{Error, ErrorKind, Payload, ToolSpec};

pub fn check(spec: &ToolSpec, arguments: &Payload) -> Result<(), Error> {
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
