//! Failed requests: JSON-RPC errors with the code, data and HTTP status that a revision requires.

use super::Revision;
use crate::envelope;
use crate::jsonrpc::{self, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RequestId};
use toolyard_formats::json::Object;
use toolyard_protocol::{Error, ErrorKind, Payload, RpcError, text::escape_control};

const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;
/// The code of handshake revisions for a resource that was not found.
const RESOURCE_NOT_FOUND: i64 = -32002;

#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub error: RpcError,
    /// The status for stateless HTTP; handshake revisions always use 200.
    pub http: u16,
}

impl Failure {
    fn new(code: i64, http: u16, message: impl Into<String>) -> Failure {
        Failure { error: RpcError::new(code, message), http }
    }

    fn data(mut self, write: impl FnOnce(&mut Object<'_>)) -> Failure {
        let mut data = Vec::new();
        let mut object = Object::new(&mut data);
        write(&mut object);
        object.end();
        self.error.data = Some(Payload::json(data));
        self
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
        let message = "this request needs a capability that the client did not declare";
        Failure::new(MISSING_CAPABILITY, 400, message).data(|data| {
            data.raw("requiredCapabilities", required.as_bytes());
        })
    }

    pub fn unsupported_version(requested: &str) -> Failure {
        let stateless = Revision::ALL.into_iter().filter(|revision| revision.is_stateless());
        let message = "unsupported protocol version for requests without a handshake";
        Failure::new(UNSUPPORTED_VERSION, 400, message).data(|data| {
            data.texts("supported", stateless.map(Revision::as_str)).text("requested", requested);
        })
    }

    /// The failure of a method other than `tools/call`. `uri` is the resource concerned, if any.
    pub fn of(error: &Error, revision: Revision, uri: Option<&str>) -> Failure {
        let code = match error.kind {
            ErrorKind::ResourceNotFound if uri.is_some() && !revision.is_stateless() => RESOURCE_NOT_FOUND,
            kind => jsonrpc::code_of(kind),
        };
        Failure::new(code, 200, &error.message).data(|data| {
            if let Some(uri) = uri {
                data.text("uri", uri);
            }
            envelope::push_error(data.member("error"), error);
        })
    }

    pub fn write(&self, id: Option<&RequestId>) -> Vec<u8> {
        jsonrpc::error(id, &self.error)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::params(message)
    }
}
