//! Failed requests: JSON-RPC errors with the code, data and HTTP status that a revision requires.

use super::Revision;
use crate::envelope;
use crate::jsonrpc::{self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RequestId};
use toolyard_formats::json::Object;
use toolyard_protocol::error_table::McpErrorMapping;
use toolyard_protocol::{Error, ErrorKind, text::escape_control};

const HEADER_MISMATCH: i32 = -32020;
const MISSING_CAPABILITY: i32 = -32021;
const UNSUPPORTED_VERSION: i32 = -32022;
/// The code of handshake revisions for a resource that was not found.
const RESOURCE_NOT_FOUND: i32 = -32002;

#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: i32,
    pub message: String,
    /// Raw JSON.
    pub data: Option<Vec<u8>>,
    /// The status for stateless HTTP; handshake revisions always use 200.
    pub http: u16,
}

impl Failure {
    fn new(code: i32, http: u16, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), data: None, http }
    }

    pub fn unknown_method(method: &str) -> Failure {
        let shown: String = escape_control(method).chars().take(100).collect();
        Failure::new(METHOD_NOT_FOUND, 404, format!("method not found: '{shown}'"))
    }

    pub fn params(message: impl Into<String>) -> Failure {
        Failure::new(INVALID_PARAMS, 200, message)
    }

    /// The request itself is malformed, not only its parameters.
    pub fn malformed(message: impl Into<String>) -> Failure {
        Failure::new(INVALID_PARAMS, 400, message)
    }

    pub fn request(http: u16, message: impl Into<String>) -> Failure {
        Failure::new(INVALID_REQUEST, http, message)
    }

    pub fn header_mismatch(message: impl Into<String>) -> Failure {
        Failure::new(HEADER_MISMATCH, 400, message)
    }

    /// `required` is a raw `ClientCapabilities` object.
    pub fn missing_capability(required: &str) -> Failure {
        let mut data = Vec::new();
        let mut object = Object::new(&mut data);
        object.raw("requiredCapabilities", required.as_bytes());
        object.end();
        let message = "this request needs a capability that the client did not declare";
        Failure { data: Some(data), ..Failure::new(MISSING_CAPABILITY, 400, message) }
    }

    pub fn unsupported_version(requested: &str) -> Failure {
        let mut data = Vec::new();
        let mut object = Object::new(&mut data);
        let stateless = Revision::ALL.into_iter().filter(|revision| revision.is_stateless());
        object.texts("supported", stateless.map(Revision::as_str)).text("requested", requested);
        object.end();
        let message = "unsupported protocol version for requests without a handshake";
        Failure { data: Some(data), ..Failure::new(UNSUPPORTED_VERSION, 400, message) }
    }

    /// The failure of a method other than `tools/call`. `uri` is the resource concerned, if any.
    pub fn of(error: &Error, revision: Revision, uri: Option<&str>) -> Failure {
        let code = match (error.kind, error.kind.row().mcp) {
            (ErrorKind::ResourceNotFound, _) if uri.is_some() && !revision.is_stateless() => {
                RESOURCE_NOT_FOUND
            }
            (ErrorKind::InvalidInput | ErrorKind::InputTooLarge, _) => INVALID_PARAMS,
            (_, McpErrorMapping::JsonRpc(code)) => code,
            _ => INTERNAL_ERROR,
        };
        let mut data = Vec::new();
        let mut object = Object::new(&mut data);
        if let Some(uri) = uri {
            object.text("uri", uri);
        }
        envelope::push_error(object.member("error"), error);
        object.end();
        Failure { code, message: error.message.clone(), data: Some(data), http: 200 }
    }

    pub fn write(&self, id: Option<&RequestId>) -> Vec<u8> {
        jsonrpc::error(id, self.code.into(), &self.message, self.data.as_deref())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::params(message)
    }
}
