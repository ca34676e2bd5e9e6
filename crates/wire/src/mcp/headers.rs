//! HTTP headers that mirror parts of the body, so that intermediaries need not parse it. They must match it.

use super::Method;
use crate::jsonrpc::{self, Params};
use serde_json::Value;
use toolyard_formats::json;
use toolyard_protocol::base64;

/// A property of a tool's input that its callers also send as `Mcp-Param-<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    /// The header, in lower case.
    pub header: String,
    /// The path of the property in the arguments.
    pub path: Vec<String>,
}

/// The value that `Mcp-Name` must have for a method, if the header is required.
pub fn name(method: &Method, params: &Params) -> Option<String> {
    let member = match method {
        Method::CallTool | Method::GetPrompt => "name",
        Method::ReadResource => "uri",
        Method::Task(_) => "taskId",
        _ => return None,
    };
    params.get(member).and_then(|raw| jsonrpc::text(&raw))
}

/// The value of a header; what a header cannot carry as it is, is wrapped as base64.
pub fn encode(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (b' '..0x7f).contains(&byte)) && value.trim() == value;
    if is_plain && !value.starts_with(BASE64_START) {
        return value.to_owned();
    }
    format!("{BASE64_START}{}{BASE64_END}", base64::encode(value.as_bytes()))
}

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// Decodes a header value; `None` when its encoding is invalid.
pub fn decode(value: &str) -> Option<String> {
    let value = value.trim_matches([' ', '\t']);
    match value.strip_prefix(BASE64_START).and_then(|rest| rest.strip_suffix(BASE64_END)) {
        Some(encoded) => String::from_utf8(base64::decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// The mirrored properties of a tool's input schema; most tools have none.
pub fn header_params(schema: &[u8]) -> Vec<HeaderParam> {
    const HEADER_KEYWORD: &[u8] = b"\"x-mcp-header\"";
    if !schema.windows(HEADER_KEYWORD.len()).any(|window| window == HEADER_KEYWORD) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Ok(schema) = serde_json::from_slice::<Value>(schema) {
        collect(&schema, &mut Vec::new(), &mut found);
    }
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderParam>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(Value::String(header)) = property.get("x-mcp-header") {
            found.push(HeaderParam {
                header: format!("mcp-param-{}", header.to_ascii_lowercase()),
                path: path.clone(),
            });
        }
        collect(property, path, found);
        path.pop();
    }
}

/// The first mismatch between headers and arguments; `header` returns a header's raw value.
pub fn mismatch<'h>(
    header_params: &[HeaderParam],
    arguments: &[u8],
    header: impl Fn(&str) -> Option<&'h str>,
) -> Option<String> {
    header_params.iter().find_map(|param| {
        let body = value_at(arguments, &param.path);
        match (header(&param.header), body) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("the header '{}' is missing", param.header)),
            (Some(_), None) => Some(format!("the header '{}' has no value in the body", param.header)),
            (Some(header), Some(body)) => match decode(header) {
                None => Some(format!("the header '{}' has an invalid encoding", param.header)),
                Some(header) if same(&header, body) => None,
                Some(_) => Some(format!("the header '{}' does not match the body", param.header)),
            },
        }
    })
}

/// The raw value at a path; `null` counts as absent.
fn value_at<'a>(arguments: &'a [u8], path: &[String]) -> Option<&'a [u8]> {
    let mut raw = arguments;
    for name in path {
        let members = json::members(raw).ok()??;
        let (_, range) = members.into_iter().find(|(key, _)| key == name)?;
        raw = &raw[range];
    }
    (raw != b"null").then_some(raw)
}

/// Compares strings literally, numbers by value and booleans by name.
fn same(header: &str, body: &[u8]) -> bool {
    match body.first() {
        Some(b'"') => jsonrpc::text(body).is_some_and(|text| text == header),
        Some(b'-' | b'0'..=b'9') => {
            let body = std::str::from_utf8(body).unwrap_or_default();
            let whole = |text: &str| text.parse::<i128>().ok();
            match (whole(header), whole(body)) {
                (Some(a), Some(b)) => a == b,
                _ => matches!((header.parse::<f64>(), body.parse::<f64>()), (Ok(a), Ok(b)) if a == b),
            }
        }
        _ => header.as_bytes() == body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literal_unless_wrapped_as_base64() {
        assert_eq!(decode("  x y\t").as_deref(), Some("x y"));
        assert_eq!(decode("=?base64?SGVsbG8=?=").as_deref(), Some("Hello"));
        assert_eq!(decode("=?base64?SGVsbG8=").as_deref(), Some("=?base64?SGVsbG8="));
        assert_eq!(decode("SGVsbG8=").as_deref(), Some("SGVsbG8="));
        for text in ["plain", "a b", " x", "", "é", "line\nbreak", "=?base64?SGVsbG8=?="] {
            let encoded = encode(text);
            assert_eq!(decode(&encoded).as_deref(), Some(text), "{encoded}");
            assert!(encoded.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{encoded}");
        }
        for bad in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn mirrored_arguments_must_agree_with_their_headers() {
        let schema = br#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "plain":{"type":"string"}}}"#;
        let header_params = header_params(schema);
        assert_eq!(header_params.len(), 2);
        let check = |arguments: &str, headers: &[(&str, &'static str)]| {
            let find = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            mismatch(&header_params, arguments.as_bytes(), find)
        };
        assert_eq!(check("{}", &[]), None);
        assert_eq!(check(r#"{"region":null,"deep":{"n":null}}"#, &[]), None);
        assert_eq!(check(r#"{"region":"eu"}"#, &[("mcp-param-region", "eu")]), None);
        assert_eq!(check(r#"{"region":"Hello"}"#, &[("mcp-param-region", "=?base64?SGVsbG8=?=")]), None);
        assert_eq!(check(r#"{"deep":{"n":42}}"#, &[("mcp-param-n", "42")]), None);
        assert_eq!(check(r#"{"deep":{"n":42.0}}"#, &[("mcp-param-n", "42")]), None);
        for (arguments, headers) in [
            (r#"{"region":"eu"}"#, &[][..]),
            (r#"{"region":"eu"}"#, &[("mcp-param-region", "EU")]),
            (r#"{"region":"eu"}"#, &[("mcp-param-region", "=?base64?!?=")]),
            (r#"{}"#, &[("mcp-param-region", "eu")]),
            (r#"{"deep":{"n":43}}"#, &[("mcp-param-n", "42")]),
            (r#"{"deep":{"n":9007199254740993}}"#, &[("mcp-param-n", "9007199254740992")]),
        ] {
            assert!(check(arguments, headers).is_some(), "{arguments} {headers:?}");
        }
    }
}
