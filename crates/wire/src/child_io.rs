//! stdin and stdout of a child process: the contracts of the toolpack format and the manifest format.

use crate::content;
use bytes::Bytes;
use std::ops::Range;
use toolyard_formats::json::{self, Object, ParseError};
use toolyard_protocol::{Error, ErrorKind, Outcome, Payload, text::escape_control};

/// The contract of a tool's stdin and stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// Toolpack format: the bare payload in, one JSON document out.
    Document,
    /// Manifest format: one line `{"arguments": …}` in, one JSON line out; lines before it are log lines.
    Line,
}

/// A tool's result and its log lines.
#[derive(Debug)]
pub struct ToolOutput {
    pub outcome: Outcome,
    /// Lines before the result that are not JSON (line contract only); limited in number.
    pub log: Vec<String>,
}

const LOG_LINES: usize = 100;

/// The bytes for the child's stdin.
pub fn request(contract: Contract, arguments: &Payload) -> Bytes {
    match contract {
        Contract::Document => arguments.bytes().clone(),
        Contract::Line => {
            let mut line = Vec::with_capacity(arguments.len() + 16);
            // In valid JSON a raw line break can only be white space between tokens.
            let one_line = arguments.bytes().iter().map(|&b| if b == b'\n' || b == b'\r' { b' ' } else { b });
            Object::new(&mut line).member("arguments").extend(one_line);
            line.push(b'\n');
            line.into()
        }
    }
}

/// Reads the child's stdout. An `Err` means that the output violates the contract.
pub fn read(contract: Contract, stdout: Bytes) -> Result<ToolOutput, Error> {
    match contract {
        Contract::Document => {
            let range = trimmed(&stdout);
            if range.is_empty() {
                return Err(nothing_printed());
            }
            document(stdout.slice(range)).map(|outcome| ToolOutput { outcome, log: Vec::new() })
        }
        Contract::Line => line(stdout),
    }
}

fn document(text: Bytes) -> Result<Outcome, Error> {
    let members = json::members(&text).map_err(|parse_error| not_json(&text, &parse_error))?;
    let Some(members) = members else { return Ok(Outcome::success(Some(Payload::json(text)))) };
    let find = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, range)| range.clone());
    let is_null = |range: &Range<usize>| &text[range.clone()] == b"null";
    if let Some(range) = find("error").filter(|range| !is_null(range)) {
        return Ok(Outcome::failure(parse_reported_error(&text.slice(range))));
    }
    if content::is_content(&text, &members) {
        return content::outcome(&text, &members);
    }
    let Some(data) = find("data") else { return Ok(Outcome::success(Some(Payload::json(text)))) };
    let stray = members.iter().find(|(key, _)| !matches!(key.as_ref(), "data" | "error"));
    if let Some((key, _)) = stray {
        let message = format!("the tool's output has '{}' beside 'data'", escape_control(key));
        return Err(Error::new(ErrorKind::InvalidOutput, message)
            .hint("put everything inside 'data', or print an object without a 'data' member"));
    }
    let data = (!is_null(&data)).then(|| Payload::json(text.slice(data)));
    Ok(Outcome::success(data))
}

/// Reads the tool's own error: `{"code": …, "message": …}` or a string.
fn parse_reported_error(raw: &Bytes) -> Error {
    #[derive(serde::Deserialize)]
    struct Reported {
        code: Option<String>,
        message: Option<String>,
    }
    if let Ok(message) = serde_json::from_slice::<String>(raw) {
        return Error::new(ErrorKind::ToolFailed, escape_control(&message));
    }
    match serde_json::from_slice::<Reported>(raw) {
        Ok(Reported { code, message }) => {
            let kind = ErrorKind::from_tool_code(code.as_deref().unwrap_or_default());
            let message = message.map_or_else(
                || "the tool reported an error without a message".to_owned(),
                |m| escape_control(&m),
            );
            Error::new(kind, message).with(|details| {
                details.tool_code = code.map(|code| escape_control(&code));
                details.tool_details = Some(Payload::json(raw.clone()));
            })
        }
        Err(_) => Error::new(ErrorKind::ToolFailed, "the tool reported an error")
            .with(|details| details.tool_details = Some(Payload::json(raw.clone()))),
    }
}

fn line(stdout: Bytes) -> Result<ToolOutput, Error> {
    // A single pretty-printed value is accepted too.
    let whole = stdout.slice(trimmed(&stdout));
    if !whole.is_empty() && json::scan(&whole).is_ok() {
        return Ok(ToolOutput { outcome: line_outcome(whole)?, log: Vec::new() });
    }
    let mut log = Vec::new();
    let mut parse_error = None;
    let mut at = 0;
    while at < stdout.len() {
        let end = stdout[at..].iter().position(|&b| b == b'\n').map_or(stdout.len(), |i| at + i);
        let text = stdout.slice(at..end);
        let rest = stdout.slice((end + 1).min(stdout.len())..);
        at = end + 1;
        let text = text.slice(trimmed(&text));
        if text.is_empty() {
            continue;
        }
        match json::members(&text) {
            Ok(_) if !trimmed(&rest).is_empty() => return Err(trailing(&rest.slice(trimmed(&rest)))),
            Ok(_) => return Ok(ToolOutput { outcome: line_outcome(text)?, log }),
            Err(found) => {
                parse_error = Some(not_json(&text, &found));
                if log.len() < LOG_LINES {
                    log.push(escape_control(&String::from_utf8_lossy(&text[..text.len().min(1000)])));
                }
            }
        }
    }
    Err(parse_error.unwrap_or_else(nothing_printed))
}

fn trailing(rest: &[u8]) -> Error {
    let first = rest.split(|&b| b == b'\n').next().unwrap_or(rest);
    let what = if json::scan(first).is_ok() { "a second result" } else { "more text" };
    Error::new(
        ErrorKind::InvalidOutput,
        format!("the tool printed {what} after its result: {}", excerpt(rest)),
    )
    .hint("print exactly one JSON line, as the last thing on stdout; log to stderr")
}

/// `{content: […], …}` is MCP content; every other value is data.
fn line_outcome(text: Bytes) -> Result<Outcome, Error> {
    let members = json::members(&text).map_err(|parse_error| not_json(&text, &parse_error))?;
    match members.filter(|members| content::has_array(&text, members)) {
        Some(members) => content::outcome(&text, &members),
        None => Ok(Outcome::success(Some(Payload::json(text)))),
    }
}

fn nothing_printed() -> Error {
    Error::new(ErrorKind::InvalidOutput, "the tool printed nothing on stdout")
        .hint("a tool must print one JSON value; {\"data\": null} for an empty result")
}

fn not_json(text: &[u8], parse_error: &ParseError) -> Error {
    let utf8 = std::str::from_utf8(text).is_ok();
    let what = if utf8 {
        format!("the tool's output is not JSON: {parse_error}")
    } else {
        format!("the tool's output is not UTF-8: {parse_error}")
    };
    Error::new(ErrorKind::InvalidOutput, format!("{what}; it printed {}", excerpt(text)))
        .hint("print one JSON value and nothing else on stdout; log to stderr")
}

pub(crate) fn excerpt(text: &[u8]) -> String {
    let cut = &text[..text.len().min(80)];
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{:?}{more}", escape_control(&String::from_utf8_lossy(cut)))
}

/// The range without white space at either end.
fn trimmed(text: &[u8]) -> Range<usize> {
    let is_space = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !is_space(b)).map_or(start, |i| i + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn document(text: &str) -> Result<Outcome, Error> {
        read(Contract::Document, Bytes::from(text.to_owned())).map(|output| output.outcome)
    }

    fn data(outcome: &Outcome) -> Option<&str> {
        outcome.data().map(|payload| std::str::from_utf8(payload.bytes()).unwrap())
    }

    #[test]
    fn document_outputs_are_unwrapped() {
        assert_eq!(data(&document(" {\"data\": {\"ok\": true}}\n").unwrap()), Some("{\"ok\": true}"));
        assert_eq!(data(&document("{\"data\":null}").unwrap()), None);
        assert_eq!(data(&document("{\"rows\":[1]}").unwrap()), Some("{\"rows\":[1]}"));
        assert_eq!(data(&document("12345678901234567890").unwrap()), Some("12345678901234567890"));
        assert_eq!(data(&document("{\"data\":1,\"error\":null}").unwrap()), Some("1"));
    }

    #[test]
    fn document_errors_are_failures_never_success() {
        for (text, kind, message) in [
            (r#"{"error":{"code":"EINVAL","message":"bad input"}}"#, ErrorKind::InvalidInput, "bad input"),
            (r#"{"error":{"code":"ETIMEOUT","message":"slow"}}"#, ErrorKind::Timeout, "slow"),
            (r#"{"error":{"code":"EWEIRD","message":"x"},"traceback":"y"}"#, ErrorKind::ToolFailed, "x"),
            (r#"{"error":"just text"}"#, ErrorKind::ToolFailed, "just text"),
            (r#"{"error":[1,2]}"#, ErrorKind::ToolFailed, "the tool reported an error"),
        ] {
            let outcome = document(text).unwrap();
            let error = outcome.error().expect(text);
            assert_eq!((error.kind, error.message.as_str()), (kind, message));
        }
    }

    #[test]
    fn broken_documents_are_rejected_with_the_reason() {
        for (text, what) in [
            ("", "printed nothing"),
            ("  \n", "printed nothing"),
            ("hello", "not JSON"),
            ("{\"data\":1}{\"data\":2}", "text after"),
            ("{\"data\":1,\"x\":2}", "'x' beside 'data'"),
        ] {
            let error = document(text).expect_err(text);
            assert_eq!(error.kind, ErrorKind::InvalidOutput);
            assert!(error.message.contains(what), "{text:?}: {error}");
        }
        let error = read(Contract::Document, Bytes::from_static(b"{\"data\":\"\xff\"}")).unwrap_err();
        assert!(error.message.contains("not UTF-8"), "{error}");
    }

    fn lines(text: &str) -> Result<ToolOutput, Error> {
        read(Contract::Line, Bytes::from(text.to_owned()))
    }

    #[test]
    fn the_line_contract_takes_the_first_json_line_and_logs_the_rest() {
        let output = lines("loading…\n\nwarning: x\n{\"sum\": 3}\n\n").unwrap();
        assert_eq!(data(&output.outcome), Some("{\"sum\": 3}"));
        assert_eq!(output.log, ["loading…", "warning: x"]);
        let pretty = lines("{\n  \"a\": 1\n}\n").unwrap();
        assert_eq!(data(&pretty.outcome), Some("{\n  \"a\": 1\n}"));
        let content = lines(r#"{"content":[{"type":"text","text":"hi"}],"isError":false}"#).unwrap();
        assert_eq!(content.outcome.content().unwrap().bytes(), &br#"[{"type":"text","text":"hi"}]"#[..]);
        let failed = lines(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#).unwrap();
        assert_eq!(failed.outcome.error().unwrap().message, "no");
    }

    #[test]
    fn breaches_of_the_line_contract_are_named() {
        for (text, what) in [
            ("", "printed nothing"),
            ("only log\n", "not JSON"),
            ("{\"a\":1}\n{\"a\":2}\n", "a second result"),
            ("{\"a\":1}\ndone\n", "more text"),
            ("log\n{\n  \"a\": 1\n}\n", "not JSON"),
            ("{\"content\":[],\"isError\":\"yes\"}", "isError"),
        ] {
            let error = lines(text).expect_err(text);
            assert!(error.message.contains(what), "{text:?}: {error}");
        }
    }

    #[test]
    fn requests_follow_their_contract() {
        let payload = Payload::json("{\"a\":\n 1}");
        assert_eq!(request(Contract::Document, &payload), "{\"a\":\n 1}");
        assert_eq!(request(Contract::Line, &payload), "{\"arguments\":{\"a\":  1}}\n");
    }

    proptest! {
        #[test]
        fn any_output_is_a_result_or_a_clear_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            for contract in [Contract::Document, Contract::Line] {
                if let Err(error) = read(contract, Bytes::from(bytes.clone())) {
                    prop_assert_eq!(error.kind, ErrorKind::InvalidOutput);
                }
            }
        }
    }
}
