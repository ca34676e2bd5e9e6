//! A typed tool erased: bytes of either format in, bytes of the same format out.

mod any;
mod decode;
mod decode_error;
mod schema;
mod tracked;

pub use any::AnyJson;

use bytes::Bytes;
use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use toolyard_protocol::{
    Annotations, Context, Error, ErrorKind, Format, Payload, Request, Timing, Tool, Violation,
};

pub type TypedFuture<'a> = Pin<Box<dyn Future<Output = Result<Payload, Error>> + Send + 'a>>;

/// What the registry keeps of a typed tool.
pub trait Typed: Send + Sync {
    fn spec(&self) -> &TypedSpec;

    /// Whether [`Typed::run`] would take these arguments. For those who must know before the work starts.
    fn check(&self, arguments: &Payload) -> Result<(), Vec<Violation>>;

    /// Reads the request, runs the tool, writes its response in the format of the arguments.
    fn run<'a>(&'a self, arguments: &'a Payload, context: Context<'a>) -> TypedFuture<'a>;
}

/// Erases a tool.
pub fn typed<T: Tool>(tool: T) -> Box<dyn Typed> {
    Box::new(Erased { tool, spec: TypedSpec::of::<T>() })
}

/// A tool's constants, and the schemas of its types.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub timing: Timing,
    pub annotations: Annotations,
    pub timeout: Duration,
    /// Bytes of arguments.
    pub input: usize,
    /// Bytes of the response.
    pub output: usize,
    /// For listing: what is taken is decided by the type and its `check`.
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
            input: T::INPUT,
            output: T::OUTPUT,
            input_schema: schema::of_request::<T::Request>(),
            output_schema: schema::of_response::<T::Response>(),
        }
    }
}

/// A request read and checked; every violation that was found, each with its place.
pub fn read<R: Request>(arguments: &Payload) -> Result<R, Vec<Violation>> {
    let request: R = decode::decode(arguments)?;
    let mut broken = Vec::new();
    request.check(&mut broken);
    if broken.is_empty() { Ok(request) } else { Err(broken) }
}

/// Any value in the format; MsgPack as maps, absent fields left out as the type says.
pub fn write(value: &impl Serialize, format: Format) -> Result<Payload, Error> {
    let written = match format {
        Format::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
        Format::MsgPack => rmp_serde::to_vec_named(value).map_err(|error| error.to_string()),
    };
    let bytes = written
        .map_err(|what| Error::new(ErrorKind::Internal, format!("the response cannot be written: {what}")))?;
    Ok(Payload::new(format, Bytes::from(bytes)))
}

/// The page that says how to write a tool; its examples are compiled and run.
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
            let request = read(arguments).map_err(|violations| refused(T::NAME, violations))?;
            let response = self.tool.run(request, context).await?;
            write(&response, arguments.format())
        })
    }
}

/// The same words as for tools whose arguments are held to a schema.
fn refused(name: &str, violations: Vec<Violation>) -> Error {
    let first = violations.first().map_or(String::new(), |violation| {
        let pointer = if violation.pointer.is_empty() { "the value itself" } else { &violation.pointer };
        format!(": at {pointer}: {}", violation.message)
    });
    let more =
        if violations.len() > 1 { format!(" (and {} more)", violations.len() - 1) } else { String::new() };
    Error::new(ErrorKind::InvalidInput, format!("the arguments do not fit '{name}'{first}{more}"))
        .hint("'toolyard show' prints the input schema")
        .with(|details| details.violations = violations)
}

#[cfg(test)]
mod tests;
