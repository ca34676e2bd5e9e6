//! JSON-RPC 2.0 messages: parsed in one pass without a tree, written around raw results.
//!
//! Ids, arguments and results stay raw bytes, so that big integers and unknown members are preserved.

use crate::mcp::Method;
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Range;
use toolyard_formats::json::{Object, ParseError, Token, Tokenizer};
use toolyard_protocol::error_table::McpErrorMapping;
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{ErrorKind, Payload, RpcError};

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// The maximum number of messages in a batch.
pub const MAX_BATCH: usize = 100;

/// A string or an integer, as its canonical JSON text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Bytes);

/// The content of a body or a line.
pub enum Incoming {
    One(Result<Message, Reject>),
    /// Several messages in an array, which one MCP revision allows.
    Batch(Vec<Result<Message, Reject>>),
}

pub enum Message {
    Request(Request),
    Notification(Notification),
    Response(Response),
}

pub struct Request {
    pub id: RequestId,
    pub method: Method,
    pub params: Params,
}

pub struct Notification {
    pub method: String,
    pub params: Params,
}

/// The client's response to a request of the server.
pub struct Response {
    pub id: RequestId,
    /// The raw result, or the message of the error.
    pub result: Result<Bytes, String>,
}

/// The error response to an invalid message.
#[derive(Debug)]
pub struct Reject {
    pub id: Option<RequestId>,
    pub error: RpcError,
}

/// The members of `params` and of its `_meta` as raw JSON. Unknown members are only in `raw`.
#[derive(Default)]
pub struct Params {
    body: Bytes,
    whole: Range<usize>,
    fields: Vec<(&'static str, Range<usize>)>,
    meta: Vec<(&'static str, Range<usize>)>,
}

/// Reads a body or a line.
pub fn read(body: &Bytes) -> Incoming {
    let first = body.iter().find(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
    if first != Some(&b'[') {
        return Incoming::One(read_one(body));
    }
    match elements(body, MAX_BATCH + 1) {
        Ok(ranges) if ranges.is_empty() => {
            Incoming::One(Err(Reject::invalid(None, "an empty batch is not allowed")))
        }
        Ok(ranges) if ranges.len() > MAX_BATCH => {
            let what = format!("a batch may have at most {MAX_BATCH} messages");
            Incoming::One(Err(Reject::invalid(None, what)))
        }
        Ok(ranges) => Incoming::Batch(ranges.into_iter().map(|range| read_one(&body.slice(range))).collect()),
        Err(parse_error) => Incoming::One(Err(Reject::parse(&parse_error))),
    }
}

/// The byte ranges of the first `max` elements of an array.
pub fn elements(bytes: &[u8], max: usize) -> Result<Vec<Range<usize>>, ParseError> {
    let mut tokens = Tokenizer::new(bytes)?;
    let mut found = Vec::new();
    let is_array = matches!(tokens.next()?, Some((Token::ArrayStart, _)));
    let mut begun = None;
    while let Some((_, start)) = tokens.next()? {
        let depth = tokens.depth();
        if !is_array || depth == 0 {
            continue;
        }
        let from = *begun.get_or_insert(start);
        if depth == 1 {
            begun = None;
            if found.len() < max {
                found.push(from..tokens.position());
            }
        }
    }
    Ok(found)
}

fn read_one(body: &Bytes) -> Result<Message, Reject> {
    let index = MessageIndex::of(body).map_err(|parse_error| Reject::parse(&parse_error))?;
    let id = match index.top("id").map(|range| request_id(&body[range])) {
        None => None,
        Some(Some(id)) => Some(id),
        Some(None) => return Err(Reject::invalid(None, "'id' must be a string or an integer")),
    };
    if !index.is_object {
        return Err(Reject::invalid(None, "a message must be an object"));
    }
    let v1_initialize = is_v1_initialize(body, &index);
    let version = index.top("jsonrpc").map(|range| &body[range]);
    if version != Some(b"\"2.0\"") && !(v1_initialize && version.is_none()) {
        return Err(Reject::invalid(id, "'jsonrpc' must be \"2.0\""));
    }
    let method = match index.top("method") {
        None => return response(body, &index, id),
        Some(range) => string(&body[range]),
    };
    let Some(method) = method else { return Err(Reject::invalid(id, "'method' must be a string")) };
    if index.top("result").or(index.top("error")).is_some() {
        return Err(Reject::invalid(id, "a message has a 'method', or a 'result' or 'error', not both"));
    }
    if index.top("params").is_some_and(|range| body[range.start] != b'{') {
        return Err(Reject { id, error: RpcError::new(INVALID_PARAMS, "'params' must be an object") });
    }
    let whole = index.top("params").unwrap_or(0..0);
    let params = Params { body: body.clone(), whole, fields: index.params, meta: index.meta };
    Ok(match id {
        Some(id) => Message::Request(Request { id, method: Method::parse(&method), params }),
        None if v1_initialize => {
            Message::Request(Request { id: RequestId::none(), method: Method::Initialize, params })
        }
        None => Message::Notification(Notification { method: method.into_owned(), params }),
    })
}

/// MCP 1.0 writes its `initialize` without `jsonrpc` and `id`, but expects a response.
fn is_v1_initialize(body: &[u8], index: &MessageIndex) -> bool {
    index.top("method").is_some_and(|range| &body[range] == b"\"initialize\"")
        && find(&index.params, "protocol_version").is_some()
}

fn response(body: &Bytes, index: &MessageIndex, id: Option<RequestId>) -> Result<Message, Reject> {
    let (result, error) = (index.top("result"), index.top("error"));
    let result = match (result, error) {
        (Some(range), None) => Ok(body.slice(range)),
        (None, Some(range)) => Err(error_message(&body[range])),
        _ => return Err(Reject::invalid(id, "'method' is missing")),
    };
    match id {
        Some(id) => Ok(Message::Response(Response { id, result })),
        None => Err(Reject::invalid(None, "a response needs the 'id' of its request")),
    }
}

fn error_message(raw: &[u8]) -> String {
    let members = toolyard_formats::json::members(raw).ok().flatten().unwrap_or_default();
    let message =
        members.iter().find(|(key, _)| key == "message").and_then(|(_, range)| text(&raw[range.clone()]));
    escape_control(&message.unwrap_or_else(|| "an error without a message".to_owned()))
}

/// A JSON string's value.
pub fn text(raw: &[u8]) -> Option<String> {
    string(raw).map(Cow::into_owned)
}

fn string(raw: &[u8]) -> Option<Cow<'_, str>> {
    match Tokenizer::new(raw).ok()?.next().ok()?? {
        (Token::String(text), _) => Some(text),
        _ => None,
    }
}

fn request_id(raw: &[u8]) -> Option<RequestId> {
    match raw.first()? {
        b'"' if raw.contains(&b'\\') => {
            // Different escapes of one string are the same id.
            let mut canonical = Vec::with_capacity(raw.len());
            push_json_string(&mut canonical, &text(raw)?);
            Some(RequestId(canonical.into()))
        }
        b'"' => Some(RequestId(Bytes::copy_from_slice(raw))),
        b'-' | b'0'..=b'9' if raw[1..].iter().all(u8::is_ascii_digit) => {
            Some(RequestId(Bytes::copy_from_slice(if raw == b"-0" { b"0" } else { raw })))
        }
        _ => None,
    }
}

impl RequestId {
    pub fn number(n: u64) -> RequestId {
        RequestId(n.to_string().into())
    }

    /// `null`, for the response to a request without an id.
    pub fn none() -> RequestId {
        RequestId(Bytes::from_static(b"null"))
    }

    /// Reads raw JSON.
    pub fn parse(raw: &[u8]) -> Option<RequestId> {
        request_id(raw)
    }

    /// The id as JSON.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Params {
    /// The raw value of a member; `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<Bytes> {
        find(&self.fields, name).map(|range| self.body.slice(range)).filter(|raw| raw.as_ref() != b"null")
    }

    /// Whether the member is present, even if it is `null`.
    pub fn has(&self, name: &str) -> bool {
        find(&self.fields, name).is_some()
    }

    /// A member of `_meta`.
    pub fn meta(&self, name: &str) -> Option<Bytes> {
        find(&self.meta, name).map(|range| self.body.slice(range)).filter(|raw| raw.as_ref() != b"null")
    }

    /// A string member; `Err` for any other type.
    pub fn text(&self, name: &'static str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(raw) => text(&raw).map(Some).ok_or_else(|| format!("'{name}' must be a string")),
        }
    }

    /// A required string member.
    pub fn required_text(&self, name: &'static str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("'{name}' is missing"))
    }

    /// An object member as raw JSON.
    pub fn object(&self, name: &'static str) -> Result<Option<Bytes>, String> {
        match self.get(name) {
            Some(raw) if raw.first() != Some(&b'{') => Err(format!("'{name}' must be an object")),
            found => Ok(found),
        }
    }

    /// The whole `params` as raw JSON.
    pub fn raw(&self) -> Bytes {
        self.body.slice(self.whole.clone())
    }
}

fn find(fields: &[(&'static str, Range<usize>)], name: &str) -> Option<Range<usize>> {
    fields.iter().find(|(key, _)| *key == name).map(|(_, range)| range.clone())
}

impl Reject {
    pub fn invalid(id: Option<RequestId>, message: impl Into<String>) -> Reject {
        Reject { id, error: RpcError::new(INVALID_REQUEST, message) }
    }

    fn parse(parse_error: &ParseError) -> Reject {
        Reject { id: None, error: RpcError::new(PARSE_ERROR, format!("not valid JSON: {parse_error}")) }
    }

    pub fn write(&self) -> Vec<u8> {
        error(self.id.as_ref(), &self.error)
    }
}

/// A response; `write` appends the result.
pub fn result(id: &RequestId, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    message(capacity + id.0.len() + 40, |message| write(message.raw("id", &id.0).member("result")))
}

/// An error response.
pub fn error(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    let capacity = error.message.len() + error.data.as_ref().map_or(0, Payload::len) + 96;
    message(capacity, |message| {
        push_error(message.raw("id", id.map_or(b"null", |id| &id.0)).member("error"), error);
    })
}

/// Appends an error object.
pub fn push_error(out: &mut Vec<u8>, error: &RpcError) {
    let mut object = Object::new(out);
    object.raw("code", error.code.to_string().as_bytes()).text("message", &error.message);
    if let Some(data) = &error.data {
        object.raw("data", data.bytes());
    }
    object.end();
}

/// The JSON-RPC code of an error that cannot be a result.
pub fn code_of(kind: ErrorKind) -> i64 {
    match (kind, kind.row().mcp) {
        (ErrorKind::InvalidInput | ErrorKind::InputTooLarge, _) => INVALID_PARAMS,
        (_, McpErrorMapping::JsonRpc(code)) => code,
        (_, McpErrorMapping::ErrorResult) => INTERNAL_ERROR,
    }
}

/// A notification; `write` adds the params.
pub fn notification(method: &str, write: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    message(160, |message| write(&mut Object::new(message.text("method", method).member("params"))))
}

/// A request; `params` is raw JSON.
pub fn request(id: &RequestId, method: &str, params: &[u8]) -> Vec<u8> {
    message(params.len() + 80, |message| {
        message.raw("id", &id.0).text("method", method).raw("params", params);
    })
}

/// A message on one line; `write` adds the members after `jsonrpc`.
pub(crate) fn message(capacity: usize, write: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    let mut object = Object::new(&mut out);
    object.raw("jsonrpc", b"\"2.0\"");
    write(&mut object);
    object.end();
    one_line(&mut out);
    out
}

/// Puts a message on one line. In valid JSON a raw line break can only be white space between tokens.
fn one_line(out: &mut [u8]) {
    for byte in out {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// The byte ranges of known members: of the message, of `params` and of `params._meta`.
#[derive(Default)]
struct MessageIndex {
    is_object: bool,
    top: Vec<(&'static str, Range<usize>)>,
    params: Vec<(&'static str, Range<usize>)>,
    meta: Vec<(&'static str, Range<usize>)>,
}

impl MessageIndex {
    fn of(bytes: &[u8]) -> Result<MessageIndex, ParseError> {
        let mut tokens = Tokenizer::new(bytes)?;
        let mut index = MessageIndex::default();
        // The member whose value is being read, at depth 1, 2 and 3.
        let mut open: [Option<&'static str>; 3] = [None; 3];
        index.is_object = matches!(tokens.next()?, Some((Token::ObjectStart, _)));
        while let Some((token, start)) = tokens.next()? {
            let depth = tokens.depth();
            if let Token::Key(key) = &token {
                let indexed = match depth {
                    1 => true,
                    2 => open[0] == Some("params"),
                    3 => open[0] == Some("params") && open[1] == Some("_meta"),
                    _ => false,
                };
                if indexed {
                    open[depth - 1] = known(key);
                    open[depth..].fill(None);
                    if let Some(name) = open[depth - 1] {
                        index.level(depth).push((name, 0..0));
                    }
                }
                continue;
            }
            for level in 1..=depth.min(3) {
                if open[level - 1].is_some()
                    && let Some((_, range)) = index.level(level).last_mut()
                {
                    let from = if range.end == 0 { start } else { range.start };
                    *range = from..tokens.position();
                }
            }
        }
        Ok(index)
    }

    fn level(&mut self, depth: usize) -> &mut Vec<(&'static str, Range<usize>)> {
        match depth {
            1 => &mut self.top,
            2 => &mut self.params,
            _ => &mut self.meta,
        }
    }

    fn top(&self, name: &str) -> Option<Range<usize>> {
        find(&self.top, name)
    }
}

/// Every member name that a method reads, sorted by length.
const KNOWN: &[&str] = &[
    "id",
    "uri",
    "ref",
    "name",
    "text",
    "blob",
    "tool",
    "error",
    "_meta",
    "level",
    "major",
    "method",
    "params",
    "result",
    "cursor",
    "taskId",
    "domain",
    "jsonrpc",
    "context",
    "payload",
    "argument",
    "mimeType",
    "arguments",
    "requestId",
    "tool_name",
    "traceparent",
    "prompt_name",
    "capabilities",
    "requestState",
    "notifications",
    "progressToken",
    "inputResponses",
    "protocolVersion",
    "protocol_version",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
];

fn known(key: &str) -> Option<&'static str> {
    let from = KNOWN.partition_point(|name| name.len() < key.len());
    KNOWN[from..].iter().take_while(|name| name.len() == key.len()).find(|name| **name == key).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Message, Reject> {
        match read(&Bytes::from(text.to_owned())) {
            Incoming::One(message) => message,
            Incoming::Batch(_) => panic!("{text} is no batch"),
        }
    }

    fn request(text: &str) -> Request {
        match one(text) {
            Ok(Message::Request(request)) => request,
            Ok(_) => panic!("{text} is no request"),
            Err(reject) => panic!("{text}: {}", reject.error.message),
        }
    }

    #[test]
    fn every_known_name_is_found() {
        for name in KNOWN {
            assert_eq!(known(name), Some(*name));
        }
        assert_eq!((known(""), known("iD"), known("x".repeat(99).as_str())), (None, None, None));
    }

    #[test]
    fn requests_are_parsed_without_a_tree() {
        let text = r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"tools/call","params":
            {"vendor":{"name":"not this one","_meta":{"progressToken":1}},"name":"x","arguments":{"n":1e400,"name":"nor this"},
             "_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","other":{"traceparent":"no"}}}}"#;
        let request = request(text);
        assert_eq!(request.id.as_bytes(), b"123456789012345678901234567890");
        assert_eq!(request.method, Method::CallTool);
        assert_eq!(request.params.required_text("name").unwrap(), "x");
        assert_eq!(request.params.get("arguments").unwrap(), r#"{"n":1e400,"name":"nor this"}"#);
        assert_eq!(request.params.meta("progressToken").unwrap(), "\"p\"");
        assert_eq!(request.params.meta("traceparent"), None);
        assert!(request.params.raw().starts_with(b"{\"vendor\""));
    }

    #[test]
    fn ids_are_strings_or_integers() {
        for (id, canonical) in
            [("1", "1"), ("-7", "-7"), ("\"a\"", "\"a\""), (r#""\u0061""#, "\"a\""), ("-0", "0")]
        {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(request(&text).id.as_bytes(), canonical.as_bytes());
        }
        for bad in ["1.0", "1e3", "null", "{}", "[]", "true"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{bad},"method":"ping"}}"#);
            let reject = one(&text).err().expect(bad);
            assert_eq!((reject.error.code, reject.id), (INVALID_REQUEST, None), "{bad}");
        }
    }

    #[test]
    fn the_initialize_of_mcp_1_0_is_a_request_without_id() {
        let bare =
            r#"{"method":"initialize","params":{"protocol_version":"1.0","capabilities":{"tools":true}}}"#;
        assert_eq!(request(bare).id.as_bytes(), b"null");
        let whole = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocol_version":"1.0"}}"#;
        assert_eq!(request(whole).id.as_bytes(), b"7");
        for bad in [
            r#"{"method":"initialize","params":{"protocolVersion":"1.0"}}"#,
            r#"{"method":"tools/list","params":{"protocol_version":"1.0"}}"#,
            r#"{"jsonrpc":"1.0","method":"initialize","params":{"protocol_version":"1.0"}}"#,
        ] {
            assert_eq!(one(bad).err().expect(bad).error.code, INVALID_REQUEST);
        }
    }

    #[test]
    fn invalid_messages_get_the_right_error_code() {
        let deep = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let deep_params =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}}}"#, "{\"a\":".repeat(100_000));
        for (text, code) in [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            (deep.as_str(), PARSE_ERROR),
            (deep_params.as_str(), PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, PARSE_ERROR),
            ("5", INVALID_REQUEST),
            ("[]", INVALID_REQUEST),
            (r#"{"id":1,"method":"m"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","result":{}}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#, INVALID_PARAMS),
        ] {
            let shown: String = text.chars().take(60).collect();
            let Err(reject) = one(text) else { panic!("{shown} was accepted") };
            assert_eq!(reject.error.code, code, "{shown}");
            assert!(reject.error.message.len() < 200);
        }
        let Incoming::One(Err(reject)) = read(&Bytes::from_static(b"{\"jsonrpc\":\"2.0\xff\"}")) else {
            panic!("invalid UTF-8 was accepted")
        };
        assert_eq!(reject.error.code, PARSE_ERROR);
    }

    #[test]
    fn batches_are_split_and_bounded() {
        let Incoming::Batch(messages) =
            read(&Bytes::from_static(br#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , 7, {"jsonrpc":"2.0","method":"b","params":{"x":[1]}},"s"] "#))
        else {
            panic!("no batch")
        };
        assert_eq!(messages.len(), 4);
        assert!(
            matches!(&messages[0], Ok(Message::Request(request)) if request.method == Method::Other("a".into()))
        );
        assert!(messages[1].is_err() && messages[3].is_err());
        assert!(
            matches!(&messages[2], Ok(Message::Notification(notification)) if notification.method == "b")
        );
        let many = format!("[{}]", vec!["1"; MAX_BATCH + 1].join(","));
        assert!(matches!(read(&Bytes::from(many)), Incoming::One(Err(_))));
    }

    #[test]
    fn responses_carry_a_raw_result_or_a_readable_error() {
        let Ok(Message::Response(response)) = one(r#"{"jsonrpc":"2.0","id":3,"result":{"a": 1.50}}"#) else {
            panic!()
        };
        assert_eq!(response.result.unwrap(), r#"{"a": 1.50}"#);
        let Ok(Message::Response(response)) =
            one(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no\u001b"}}"#)
        else {
            panic!()
        };
        assert_eq!(response.result.unwrap_err(), "no\\u{1b}");
    }

    #[test]
    fn messages_are_written_on_one_line() {
        let id = RequestId::number(1);
        assert_eq!(
            result(&id, 0, |out| out.extend_from_slice(b"{\n\r\n}")),
            br#"{"jsonrpc":"2.0","id":1,"result":{   }}"#
        );
        assert_eq!(
            error(None, &RpcError { data: Some(Payload::json("{}")), ..RpcError::new(-32700, "a\nb") }),
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a\nb","data":{}}}"#
        );
        assert_eq!(
            notification("n", |params| {
                params.number("a", 1);
            }),
            br#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#
        );
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&Bytes::from(bytes));
        }

        #[test]
        fn hostile_json_never_panics(text in r#"[\[\]{}":,0-9a-z\\ ]{0,120}"#) {
            read(&Bytes::from(text));
        }

        #[test]
        fn any_member_of_params_is_found_where_it_stands(
            before in r#"[a-z]{1,8}"#, value in r#"(\{"name":"[a-z]{0,5}"\}|\[1,\{"name":2\}\]|-?[1-9][0-9]{0,40}|"[ -!#-\[\]-~]{0,20}")"#,
        ) {
            let text = format!(r#"{{"params":{{"zz{before}":{value},"arguments":{{"v": {value} }},"name":"n"}},"id":1,"method":"m","jsonrpc":"2.0"}}"#);
            let request = request(&text);
            let arguments = format!(r#"{{"v": {value} }}"#);
            prop_assert_eq!(request.params.get("arguments").unwrap(), arguments);
            prop_assert_eq!(request.params.required_text("name").unwrap(), "n");
        }
    }
}
