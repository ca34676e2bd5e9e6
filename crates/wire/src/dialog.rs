//! The line protocol of tools with `dialog: true`: messages on stdout, answers to questions on stdin.
//!
//! A line `{"$toolyard": {…}}` is a message, any other JSON line is the result, and other lines are noise.

use crate::child_io::{Contract, excerpt, request as plain_request};
use bytes::Bytes;
use toolyard_formats::json::{self, Object};
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{
    Error, ErrorKind, InputRequest, InputRequestBody, InputResponse, LogLevel, LogLine, Payload, Progress,
    RpcError,
};

/// The member that makes a line a message.
const MESSAGE_KEY: &str = "$toolyard";
/// The longest id of a question.
const MAX_ID: usize = 128;

/// One line of stdout.
#[derive(Debug, PartialEq)]
pub enum DialogLine {
    Blank,
    Message(Message),
    /// JSON that is not a message: the tool's result.
    Answer,
    /// Not JSON.
    Noise,
}

#[derive(Debug, PartialEq)]
pub enum Message {
    Progress(Progress),
    Log(LogLine),
    InputRequest(DialogRequest),
    CloseStream { retry_ms: Option<u64> },
    Detach,
    RpcError(RpcError),
}

/// A question and the id that its answer must carry.
#[derive(Debug, PartialEq)]
pub struct DialogRequest {
    /// As the tool wrote it: a JSON string or number.
    pub id: Payload,
    pub question: InputRequest,
}

/// The request as one line in either contract: stdin stays open, so the line break ends the request.
pub fn request(contract: Contract, arguments: &Payload) -> Bytes {
    match contract {
        Contract::Line => plain_request(contract, arguments),
        Contract::Document => {
            let mut line = one_line(arguments.bytes()).collect::<Vec<u8>>();
            line.push(b'\n');
            line.into()
        }
    }
}

/// Reads one line. An `Err` means an invalid message; it quotes the line.
pub fn read(line: &Bytes) -> Result<DialogLine, Error> {
    let line = line.slice_ref(line.trim_ascii());
    if line.is_empty() {
        return Ok(DialogLine::Blank);
    }
    let members = match json::members(&line) {
        Ok(members) => members.unwrap_or_default(),
        // Clearly meant as a message; as noise it would be lost silently.
        Err(parse_error) if line.starts_with(b"{\"$toolyard\"") => {
            return Err(broken(&line, &format!("is not JSON: {parse_error}")));
        }
        Err(_) => return Ok(DialogLine::Noise),
    };
    let Some((_, range)) = members.iter().find(|(name, _)| name == MESSAGE_KEY) else {
        return Ok(DialogLine::Answer);
    };
    if members.len() > 1 {
        return Err(broken(&line, "has other members beside '$toolyard'"));
    }
    message(&line.slice(range.clone())).map(DialogLine::Message).map_err(|what| broken(&line, &what))
}

/// The line that answers a question.
pub fn answer(id: &Payload, result: Result<&InputResponse, &Error>) -> Bytes {
    let mut out = Vec::with_capacity(64 + result.map_or(64, |answer| answer.0.len()));
    let mut line = Object::new(&mut out);
    let mut mark = Object::new(line.member(MESSAGE_KEY));
    let mut answer = Object::new(mark.member("answer"));
    answer.raw("id", id.bytes());
    match result {
        Ok(given) => answer.member("result").extend(one_line(given.0.bytes())),
        Err(error) => {
            let mut object = Object::new(answer.member("error"));
            object.text("code", error.kind.row().name).text("message", &error.message);
            object.end();
        }
    }
    answer.end();
    mark.end();
    line.end();
    out.push(b'\n');
    out.into()
}

/// In valid JSON a raw line break can only be white space between tokens.
fn one_line(json: &[u8]) -> impl Iterator<Item = u8> {
    json.iter().map(|&b| if b == b'\n' || b == b'\r' { b' ' } else { b })
}

fn message(raw: &Bytes) -> Result<Message, String> {
    let mut parts = Members::open(raw, "'$toolyard'")?;
    let (Some((name, body)), true) = (parts.0.pop(), parts.0.is_empty()) else {
        return Err("must have exactly one message in '$toolyard'".to_owned());
    };
    let mut body = Members::open(&body, &format!("'{}'", escape_control(&name)))?;
    let message = match name.as_str() {
        "progress" => Message::Progress(progress(&mut body)?),
        "log" => Message::Log(log(&mut body)?),
        "ask" => Message::InputRequest(input_request(&mut body)?),
        "close_stream" => Message::CloseStream { retry_ms: body.value("retry_ms", "a whole number")? },
        "detach" => Message::Detach,
        "rpc_error" => Message::RpcError(RpcError {
            code: body.required("code", "a whole number")?,
            message: escape_control(&body.required::<String>("message", "a string")?),
            data: body.take("data").map(Payload::json),
        }),
        _ => {
            return Err(format!(
                "has the unknown type '{}'; expected progress, log, ask, close_stream, detach or rpc_error",
                escape_control(&name)
            ));
        }
    };
    body.end(&name)?;
    Ok(message)
}

fn progress(body: &mut Members) -> Result<Progress, String> {
    let message = body.value("message", "a string")?;
    let percent = body.value::<f64>("percent", "a number")?;
    let done = body.value::<f64>("done", "a number")?;
    let total = body.value::<f64>("total", "a number")?;
    let (done, total) = match (percent, done, total) {
        (Some(percent), None, None) if (0.0..=100.0).contains(&percent) => (percent, Some(100.0)),
        (Some(_), None, None) => return Err("has a 'percent' that is not from 0 to 100".to_owned()),
        (None, Some(done), total) if done >= 0.0 && total.is_none_or(|total| total >= 0.0) => (done, total),
        (None, Some(_), _) => return Err("has a negative 'done' or 'total'".to_owned()),
        _ => return Err("must have either 'percent', or 'done' with or without 'total'".to_owned()),
    };
    Ok(Progress { done, total, message })
}

fn log(body: &mut Members) -> Result<LogLine, String> {
    let level = body.value::<String>("level", "a string")?;
    let level = match level.as_deref() {
        None => LogLevel::Info,
        Some(text) => LogLevel::parse(text).ok_or_else(|| {
            let levels = LogLevel::ALL.map(LogLevel::as_str).join(", ");
            format!("has the unknown level '{}'; expected one of {levels}", escape_control(text))
        })?,
    };
    let logger = body.value("logger", "a string")?;
    let data = match (body.value::<String>("message", "a string")?, body.take("data")) {
        (Some(message), None) => text_payload(&message),
        (None, Some(data)) => Payload::json(data),
        _ => return Err("must have either 'message' or 'data'".to_owned()),
    };
    Ok(LogLine { level, logger, data })
}

fn input_request(body: &mut Members) -> Result<DialogRequest, String> {
    let id = body.take("id").ok_or("has no 'id'")?;
    let key = match serde_json::from_slice::<String>(&id) {
        Ok(text) => text,
        Err(_) => serde_json::from_slice::<i64>(&id)
            .map_err(|_| "has an 'id' that is neither a string nor a whole number")?
            .to_string(),
    };
    if key.is_empty() || key.len() > MAX_ID {
        return Err(format!("has an 'id' that is empty or longer than {MAX_ID} bytes"));
    }
    let (Some((kind, raw)), true) = (body.0.pop(), body.0.is_empty()) else {
        return Err("must have one of elicit, elicit_url, sample and roots beside 'id'".to_owned());
    };
    let mut parts = Members::open(&raw, &format!("'{}'", escape_control(&kind)))?;
    let question = match kind.as_str() {
        "elicit" => {
            let message = parts.required::<String>("message", "a string")?;
            let schema = parts.take("schema").filter(|raw| raw.starts_with(b"{"));
            let schema = schema.ok_or("must have a 'schema' that is an object")?;
            InputRequestBody::Elicit(object(&message, "requestedSchema", &schema))
        }
        "elicit_url" => {
            let message = parts.required::<String>("message", "a string")?;
            let url = parts.required::<String>("url", "a string")?;
            check_url(&url)?;
            InputRequestBody::ElicitUrl(object(&message, "url", text_payload(&url).bytes()))
        }
        // Passed through: the client checks these parameters.
        "sample" => {
            parts.0.clear();
            InputRequestBody::Sample(Payload::json(raw))
        }
        "roots" => InputRequestBody::Roots,
        _ => {
            return Err(format!(
                "asks for '{}'; expected elicit, elicit_url, sample or roots",
                escape_control(&kind)
            ));
        }
    };
    parts.end(&kind)?;
    Ok(DialogRequest { id: Payload::json(id), question: InputRequest { key, body: question } })
}

/// Clients offer the address to a person, who opens it: other schemes run code (`javascript:`) or open local files.
fn check_url(url: &str) -> Result<(), String> {
    let is_web = ["https://", "http://"]
        .iter()
        .any(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    if !is_web {
        return Err("has a 'url' that begins with neither https:// nor http://".to_owned());
    }
    match url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Err("has a 'url' that contains white space or control characters".to_owned()),
        false => Ok(()),
    }
}

fn object(message: &str, name: &str, value: &[u8]) -> Payload {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.text("message", message).raw(name, value);
    object.end();
    Payload::json(out)
}

/// A JSON string.
pub fn text_payload(text: &str) -> Payload {
    let mut out = Vec::with_capacity(text.len() + 2);
    push_json_string(&mut out, text);
    Payload::json(out)
}

fn broken(line: &[u8], what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOutput,
        format!("a message from the tool {what}; it printed {}", excerpt(line)),
    )
    .hint("see docs/dialog.md for the messages that a tool may send")
}

/// The members of an object that were not taken yet; `end` reports one that remains.
struct Members(Vec<(String, Bytes)>);

impl Members {
    fn open(raw: &Bytes, what: &str) -> Result<Members, String> {
        let members = json::members(raw).map_err(|parse_error| parse_error.to_string())?;
        let members = members.ok_or_else(|| format!("has {what}, which must be an object"))?;
        Ok(Members(members.into_iter().map(|(name, at)| (name.into_owned(), raw.slice(at))).collect()))
    }

    fn take(&mut self, name: &str) -> Option<Bytes> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// `null` counts as absent.
    fn value<T: serde::de::DeserializeOwned>(&mut self, name: &str, kind: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        serde_json::from_slice(&raw).map_err(|_| format!("has a '{name}' that is not {kind}"))
    }

    fn required<T: serde::de::DeserializeOwned>(&mut self, name: &str, kind: &str) -> Result<T, String> {
        self.value(name, kind)?.ok_or_else(|| format!("has no '{name}', which must be {kind}"))
    }

    fn end(self, name: &str) -> Result<(), String> {
        match self.0.first() {
            Some((stray, _)) => Err(format!(
                "has the unknown member '{}' in '{}'",
                escape_control(stray),
                escape_control(name)
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "dialog_tests.rs"]
mod tests;
