//! The result envelope: calls `{tool_name, arguments}` and results `{status, data, error, explanation}`.

use crate::jsonrpc;
use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::error_table::TABLE;
use toolyard_protocol::{Details, Error, ErrorKind, Outcome, Payload, Status, ToolName, Violation};

/// Reads a tool call: exactly two members, a canonical tool name and an object of arguments.
pub fn read_call(bytes: Bytes) -> Result<(ToolName, Payload), Error> {
    let refuse = |what: String| Error::new(ErrorKind::InvalidInput, format!("not a tool call: {what}"));
    let members = json::members(&bytes).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let members = members.ok_or_else(|| refuse("it must be an object".to_owned()))?;
    if let Some((key, _)) = members.iter().find(|(key, _)| !matches!(key.as_ref(), "tool_name" | "arguments"))
    {
        return Err(
            refuse(format!("unknown member '{key}'")).hint("only 'tool_name' and 'arguments' are allowed")
        );
    }
    let find = |name: &str| {
        let found = members.iter().find(|(key, _)| key == name).map(|(_, range)| bytes.slice(range.clone()));
        found.ok_or_else(|| refuse(format!("'{name}' is missing")))
    };
    let name: String = serde_json::from_slice(&find("tool_name")?)
        .map_err(|_| refuse("'tool_name' must be a string".to_owned()))?;
    let name = ToolName::parse(&name).map_err(|error| refuse(format!("'tool_name': {error}")))?;
    Ok((name, json::arguments(find("arguments")?)?))
}

pub fn write_call(name: &ToolName, arguments: &Payload) -> Vec<u8> {
    let mut out = Vec::with_capacity(arguments.len() + 64);
    let mut object = Object::new(&mut out);
    object.text("tool_name", name.as_str()).raw("arguments", arguments.bytes());
    object.end();
    out
}

/// Reads a tool result and checks every rule of the envelope.
pub fn read_result(bytes: Bytes) -> Result<Outcome, Error> {
    let refuse = |what: String| Error::new(ErrorKind::InvalidOutput, format!("not a tool result: {what}"));
    let members = json::members(&bytes).map_err(|parse_error| refuse(parse_error.to_string()))?;
    let members = members.ok_or_else(|| refuse("it must be an object".to_owned()))?;
    let find = |name: &str| {
        let range = members.iter().find(|(key, _)| key == name).map(|(_, range)| range.clone());
        range.map(|range| bytes.slice(range)).filter(|raw| raw.as_ref() != b"null")
    };
    let status = find("status").ok_or_else(|| refuse("'status' is missing".to_owned()))?;
    let status = serde_json::from_slice::<String>(&status).ok().and_then(|text| Status::parse(&text));
    let status = status.ok_or_else(|| {
        refuse("'status' must be success, failure, no_change_needed or partial_success".to_owned())
    })?;
    let data = find("data");
    if data.as_ref().is_some_and(|raw| !raw.starts_with(b"{")) {
        return Err(refuse("'data' must be an object or null".to_owned()));
    }
    let error = find("error")
        .map(|raw| read_error(&raw).map_err(|what| refuse(format!("'error': {what}"))))
        .transpose()?;
    let explanation = find("explanation").map(|raw| serde_json::from_slice::<String>(&raw)).transpose();
    let explanation = explanation.map_err(|_| refuse("'explanation' must be a string or null".to_owned()))?;
    let outcome =
        Outcome::new(status, data.map(Payload::json), error).map_err(|rule| refuse(rule.to_string()))?;
    Ok(match explanation {
        Some(text) => outcome.with_explanation(text),
        None => outcome,
    })
}

fn read_error(raw: &Bytes) -> Result<Error, String> {
    let members =
        json::members(raw).map_err(|parse_error| parse_error.to_string())?.ok_or("it must be an object")?;
    let find =
        |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, range)| raw.slice(range.clone()));
    let text = |name: &str| -> Result<String, String> {
        let raw = find(name).ok_or(format!("'{name}' is missing"))?;
        serde_json::from_slice(&raw).map_err(|_| format!("'{name}' must be a string"))
    };
    let error_type = text("error_type")?;
    let kind =
        TABLE.iter().find(|row| row.error_type == error_type).map_or(ErrorKind::ToolFailed, |row| row.kind);
    let details = find("error_details").filter(|raw| raw.as_ref() != b"null");
    if details.as_ref().is_some_and(|raw| !raw.starts_with(b"{") && !raw.starts_with(b"\"")) {
        return Err("'error_details' must be an object, a string or null".to_owned());
    }
    Ok(Error::new(kind, text("error_message")?).with(|known| {
        known.tool_code = Some(error_type);
        known.tool_details = details.map(Payload::json);
    }))
}

/// Reads the error response `{"error": {…}}` of `/v1/`; `None` for anything else.
pub fn read_error_body(bytes: &Bytes) -> Option<Error> {
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        error: Body,
    }
    #[derive(serde::Deserialize)]
    struct Body {
        error_message: String,
        error_details: Known,
    }
    #[derive(serde::Deserialize)]
    struct Known {
        kind: String,
        hint: Option<String>,
    }
    let ErrorBody { error } = serde_json::from_slice(bytes).ok()?;
    let kind = ErrorKind::from_name(&error.error_details.kind)?;
    Some(Error { hint: error.error_details.hint, ..Error::new(kind, error.error_message) })
}

/// Writes the result; a value that is not an object is wrapped as `{"result": v}`.
pub fn write_result(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::with_capacity(outcome.data().map_or(0, Payload::len) + 128);
    let mut object = Object::new(&mut out);
    object.text("status", outcome.status().as_str());
    push_data(object.member("data"), outcome);
    match outcome.error() {
        Some(error) => push_error(object.member("error"), error),
        None => object.member("error").extend_from_slice(b"null"),
    }
    object.text_or_null("explanation", outcome.explanation());
    object.end();
    out
}

fn push_data(out: &mut Vec<u8>, outcome: &Outcome) {
    let wrap = |out: &mut Vec<u8>, name: &str, value: &Payload| {
        let mut object = Object::new(out);
        object.raw(name, value.bytes());
        object.end();
    };
    match (outcome.data(), outcome.content()) {
        (Some(data), _) if data.bytes().first() == Some(&b'{') => out.extend_from_slice(data.bytes()),
        (Some(data), _) => wrap(out, "result", data),
        (None, Some(content)) if outcome.error().is_none() => wrap(out, "content", content),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Writes the envelope's error object with the correlation id.
pub fn push_error(out: &mut Vec<u8>, error: &Error) {
    let row = error.kind.row();
    let mut object = Object::new(out);
    object.text("error_type", row.error_type).text("error_message", &error.message);
    push_details(object.member("error_details"), error);
    let id = error.correlation_id.map(|id| id.to_string());
    object.text_or_null("correlation_id", id.as_deref());
    object.end();
}

/// Writes the details of an error as one object.
pub fn push_details(out: &mut Vec<u8>, error: &Error) {
    let row = error.kind.row();
    let Details { violations, stderr, exit, tool_code, tool_details, retry_after, rpc } =
        error.details.as_ref();
    let mut object = Object::new(out);
    object
        .text("kind", row.name)
        .text("code", row.code)
        .text("category", row.category)
        .bool("retryable", row.retryable);
    let texts = [("hint", &error.hint), ("exit", exit), ("stderr", stderr), ("tool_code", tool_code)];
    for (name, value) in texts {
        if let Some(value) = value {
            object.text(name, value);
        }
    }
    if let Some(after) = retry_after {
        object.number("retry_after_ms", after.as_millis() as u64);
    }
    if let Some(details) = tool_details {
        object.raw("tool_details", details.bytes());
    }
    if let Some(rpc) = rpc {
        jsonrpc::push_error(object.member("rpc"), rpc);
    }
    if !violations.is_empty() {
        push_violations(object.member("violations"), violations);
    }
    object.end();
}

pub fn push_violations(out: &mut Vec<u8>, violations: &[Violation]) {
    json::push_objects(out, violations, |object, violation| {
        object.text("pointer", &violation.pointer).text("message", &violation.message);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Result<(ToolName, Payload), Error> {
        read_call(Bytes::from(text.to_owned()))
    }

    #[test]
    fn calls_have_two_members_and_a_canonical_name() {
        let text = r#"{"tool_name":"ai.generate","arguments":{"n":12345678901234567890}}"#;
        let (name, arguments) = call(text).unwrap();
        assert_eq!(write_call(&name, &arguments), text.as_bytes());
        for (bad, what) in [
            ("[]", "must be an object"),
            (r#"{"tool_name":"a.b"}"#, "'arguments' is missing"),
            (r#"{"arguments":{}}"#, "'tool_name' is missing"),
            (r#"{"tool_name":"a.b","arguments":{},"x":1}"#, "unknown member 'x'"),
            (r#"{"tool_name":"BAD Name!","arguments":{}}"#, "not a tool name"),
            (r#"{"tool_name":"a.b","arguments":[]}"#, "must be a JSON object"),
            (r#"{"tool_name":5,"arguments":{}}"#, "must be a string"),
        ] {
            let error = call(bad).expect_err(bad);
            assert!(error.message.contains(what), "{bad}: {error}");
        }
    }

    #[test]
    fn results_are_checked_against_every_rule_of_the_envelope() {
        let read = |text: &str| read_result(Bytes::from(text.to_owned()));
        let error = r#"{"error_type":"ValidationError","error_message":"m"}"#;
        for good in [
            r#"{"status":"success"}"#.to_owned(),
            r#"{"status":"success","data":{"a":1},"error":null,"explanation":"e"}"#.to_owned(),
            format!(r#"{{"status":"failure","data":null,"error":{error}}}"#),
            format!(r#"{{"status":"partial_success","data":{{}},"error":{error}}}"#),
        ] {
            assert!(read(&good).is_ok(), "{good}: {:?}", read(&good));
        }
        for (bad, what) in [
            (r#"{"status":"failure"}"#.to_owned(), "needs an 'error'"),
            (format!(r#"{{"status":"failure","data":{{}},"error":{error}}}"#), "no 'data'"),
            (r#"{"status":"banana"}"#.to_owned(), "'status' must be"),
            (r#"{}"#.to_owned(), "'status' is missing"),
            (r#"{"status":"success","data":[1]}"#.to_owned(), "'data' must be"),
            (r#"{"status":"failure","error":{"error_type":"X"}}"#.to_owned(), "'error_message' is missing"),
            (
                r#"{"status":"failure","error":{"error_type":"X","error_message":"m","error_details":5}}"#
                    .to_owned(),
                "error_details",
            ),
        ] {
            let refused = read(&bad).expect_err(&bad);
            assert!(refused.message.contains(what), "{bad}: {refused}");
        }
    }

    #[test]
    fn results_are_written_in_the_golden_form_and_read_back() {
        let text = |outcome: &Outcome| String::from_utf8(write_result(outcome)).unwrap();
        let plain = Outcome::success(Some(Payload::json("[1,2]")));
        assert_eq!(
            text(&plain),
            r#"{"status":"success","data":{"result":[1,2]},"error":null,"explanation":null}"#
        );
        let failed =
            Outcome::failure(Error::new(ErrorKind::InvalidInput, "bad").hint("fix it").with(|details| {
                details.violations = vec![Violation { pointer: "/a".into(), message: "is missing".into() }];
            }));
        assert_eq!(
            text(&failed),
            concat!(
                r#"{"status":"failure","data":null,"error":{"error_type":"ValidationError","error_message":"bad","#,
                r#""error_details":{"kind":"invalid_input","code":"EINVAL","category":"validation","retryable":false,"#,
                r#""hint":"fix it","violations":[{"pointer":"/a","message":"is missing"}]},"correlation_id":null},"#,
                r#""explanation":null}"#
            )
        );
        assert!(read_result(Bytes::from(write_result(&failed))).is_ok());
    }
}
