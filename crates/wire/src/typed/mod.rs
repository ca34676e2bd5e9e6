//! Type-erased typed tools: arguments in either format in, the response in the same format out.

mod any;
mod decode_error;
mod schema;
mod tracked;

pub use any::AnyJson;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use toolyard_formats::{json, msgpack};
use toolyard_protocol::{
    Annotations, Context, Error, ErrorKind, Format, Guarded, Payload, Request, Timing, Tool, Violation,
};
use tracked::{PathTracker, TrackedDeserializer};

pub type TypedFuture<'a> = Pin<Box<dyn Future<Output = Result<Payload, Error>> + Send + 'a>>;

/// A type-erased typed tool, as the registry stores it.
pub trait Typed: Send + Sync {
    fn spec(&self) -> &TypedSpec;

    /// Whether [`Typed::run`] would accept these arguments, for checks before a job starts.
    fn check(&self, arguments: &Payload) -> Result<(), Vec<Violation>>;

    /// Decodes the request, runs the tool and encodes its response in the format of the arguments.
    fn run<'a>(&'a self, arguments: &'a Payload, context: Context<'a>) -> TypedFuture<'a>;
}

/// Erases the types of a tool.
pub fn typed<T: Tool>(tool: T) -> Box<dyn Typed> {
    Box::new(Erased { tool, spec: TypedSpec::of::<T>() })
}

/// A tool's constants and the schemas of its types.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub timing: Timing,
    pub annotations: Annotations,
    pub timeout: Duration,
    pub guarded: Option<Guarded>,
    /// Bytes of arguments.
    pub input: usize,
    /// Bytes of the response.
    pub output: usize,
    /// For listing only: the type and its `check` decide which arguments are accepted.
    pub input_schema: Payload,
    pub output_schema: Payload,
}

impl TypedSpec {
    pub fn of<T: Tool>() -> TypedSpec {
        TypedSpec {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            timing: T::TIMING,
            annotations: T::ANNOTATIONS,
            timeout: T::TIMEOUT,
            guarded: T::GUARDED,
            input: T::INPUT,
            output: T::OUTPUT,
            input_schema: schema::of_request::<T::Request>(),
            output_schema: schema::of_response::<T::Response>(),
        }
    }
}

/// Decodes and checks a request. The error lists every violation with its position.
pub fn read<R: Request>(arguments: &Payload) -> Result<R, Vec<Violation>> {
    let request: R = decode(arguments)?;
    let mut broken = Vec::new();
    request.check(&mut broken);
    if broken.is_empty() { Ok(request) } else { Err(broken) }
}

/// Encodes a value; structs become maps in MsgPack.
pub fn write(value: &impl Serialize, format: Format) -> Result<Payload, Error> {
    let written = match format {
        Format::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
        Format::MsgPack => rmp_serde::to_vec_named(value).map_err(|error| error.to_string()),
    };
    let bytes = written
        .map_err(|what| Error::new(ErrorKind::Internal, format!("cannot encode the response: {what}")))?;
    Ok(Payload::new(format, Bytes::from(bytes)))
}

/// The guide to writing a tool; its examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/typed-tools.md")]
struct Page;

struct Erased<T> {
    tool: T,
    spec: TypedSpec,
}

impl<T: Tool> Typed for Erased<T> {
    fn spec(&self) -> &TypedSpec {
        &self.spec
    }

    fn check(&self, arguments: &Payload) -> Result<(), Vec<Violation>> {
        read::<T::Request>(arguments).map(drop)
    }

    fn run<'a>(&'a self, arguments: &'a Payload, context: Context<'a>) -> TypedFuture<'a> {
        Box::pin(async move {
            let request = read(arguments).map_err(|violations| {
                let tool = format!("'{}'", T::NAME);
                Error::invalid_arguments(&tool, violations).hint("'toolyard show' prints the input schema")
            })?;
            let response = self.tool.run(request, context).await?;
            write(&response, arguments.format())
        })
    }
}

/// Unknown members are rejected in JSON and ignored in MsgPack, as HOOT01 requires.
pub fn decode<T: DeserializeOwned>(payload: &Payload) -> Result<T, Vec<Violation>> {
    match payload.format() {
        Format::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(payload.bytes());
            let tracker = PathTracker::new(Format::Json);
            let read = T::deserialize(TrackedDeserializer::new(&mut deserializer, &tracker));
            // Syntax errors get their own message. Edges have checked the syntax, so scan only on failure.
            if (read.is_err() || deserializer.end().is_err())
                && let Err(parse_error) = json::scan(payload.bytes())
            {
                return Err(whole(format!("not valid JSON: {parse_error}")));
            }
            tracker.finish(read)
        }
        Format::MsgPack => {
            // The deserializer below trusts lengths and depth, and ignores data after the value.
            msgpack::scan(payload.bytes())
                .map_err(|parse_error| whole(format!("not valid MsgPack: {parse_error}")))?;
            let mut deserializer = rmp_serde::Deserializer::from_read_ref(&payload.bytes()[..]);
            let tracker = PathTracker::new(Format::MsgPack);
            let read = T::deserialize(TrackedDeserializer::new(&mut deserializer, &tracker));
            tracker.finish(read)
        }
    }
}

fn whole(message: String) -> Vec<Violation> {
    vec![Violation { pointer: String::new(), message }]
}

#[cfg(test)]
mod tests;
