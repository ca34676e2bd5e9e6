//! Gate: whether this caller may call the tool.

use toolyard_protocol::{Error, ErrorKind, Guarded, Identity, ToolSpec};

/// A guarded tool is for the owner only: whoever can connect to the server is not the owner yet.
pub fn check(identity: &Identity, spec: &ToolSpec) -> Result<(), Error> {
    let Some(guarded) = spec.behavior.guarded.filter(|_| !identity.is_owner()) else { return Ok(()) };
    let why = match guarded {
        Guarded::Declared => "is declared 'guarded'",
        Guarded::Unconfined => "runs outside the sandbox",
        Guarded::Secrets => "gets secrets",
        Guarded::WritesFiles => "changes files of the yard's owner",
        Guarded::ReadsFiles => "reads files of the yard's owner",
        Guarded::Artifacts => "uses artifacts of the yard's owner",
    };
    let message = format!("'{}' {why}, so its callers need the yard's token", spec.exposed);
    Err(Error::new(ErrorKind::Forbidden, message)
        .hint("send the header 'Authorization: Bearer TOKEN'; 'toolyard token' prints the token"))
}
