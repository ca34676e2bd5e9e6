//! Typed tools: schemas, listing, errors and encoding follow from one request and one response type.

use crate::{Annotations, Call, Caller, Error, Guarded, Timing, Violation};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::{Duration, Instant};

/// A tool written in Rust. `wire` erases its types, so that it takes and returns payloads of either format.
///
/// ```rust
/// # use toolyard_protocol::{Annotations, Context, Error, Request, Tool};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct GreetRequest { name: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Greeting { text: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Farewell { text: String }
/// # impl Request for GreetRequest {}
/// struct Greet;
///
/// impl Tool for Greet {
///     type Request = GreetRequest;
///     type Response = Greeting;
///
///     const NAME: &'static str = "example.greet";
///     const TITLE: &'static str = "Greet";
///     const DESCRIPTION: &'static str = "Greets by name.";
///     const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
///
///     async fn run(&self, request: GreetRequest, _: Context<'_>) -> Result<Greeting, Error> {
///         Ok(Greeting { text: format!("Hello, {}!", request.name) })
///     }
/// }
/// ```
///
/// A tool whose `run` returns another type than its `Response` does not compile:
///
/// ```compile_fail,E0271
/// # use toolyard_protocol::{Annotations, Context, Error, Request, Tool};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct GreetRequest { name: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Greeting { text: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Farewell { text: String }
/// # impl Request for GreetRequest {}
/// struct Greet;
///
/// impl Tool for Greet {
///     type Request = GreetRequest;
///     type Response = Greeting;
///
///     const NAME: &'static str = "example.greet";
///     const TITLE: &'static str = "Greet";
///     const DESCRIPTION: &'static str = "Greets by name.";
///     const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
///
///     async fn run(&self, request: GreetRequest, _: Context<'_>) -> Result<Farewell, Error> {
///         Ok(Farewell { text: format!("Hello, {}!", request.name) })
///     }
/// }
/// ```
///
/// Neither does one whose `run` declares the right type but returns another:
///
/// ```compile_fail,E0308
/// # use toolyard_protocol::{Annotations, Context, Error, Request, Tool};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct GreetRequest { name: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Greeting { text: String }
/// # #[derive(serde::Serialize, schemars::JsonSchema)]
/// # struct Farewell { text: String }
/// # impl Request for GreetRequest {}
/// # struct Greet;
/// impl Tool for Greet {
///     type Request = GreetRequest;
///     type Response = Greeting;
///     // …
/// #   const NAME: &'static str = "example.greet";
/// #   const TITLE: &'static str = "Greet";
/// #   const DESCRIPTION: &'static str = "Greets by name.";
/// #   const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
///     async fn run(&self, request: GreetRequest, _: Context<'_>) -> Result<Greeting, Error> {
///         Ok(Farewell { text: format!("Hello, {}!", request.name) })
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    type Request: Request;
    type Response: Serialize + JsonSchema + Send;

    /// Canonical, `module.tool`.
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const TIMING: Timing = Timing::Sync;
    const ANNOTATIONS: Annotations;
    /// How long one run may take.
    const TIMEOUT: Duration = Duration::from_secs(30);
    /// Set when only the owner of the yard may call the tool.
    const GUARDED: Option<Guarded> = None;
    /// Bytes of arguments, in either format.
    const INPUT: usize = 64 << 10;
    /// Bytes of the response.
    const OUTPUT: usize = 256 << 10;

    /// Dropping the future must stop the work.
    fn run(
        &self,
        request: Self::Request,
        context: Context<'_>,
    ) -> impl Future<Output = Result<Self::Response, Error>> + Send;
}

/// The request of a typed tool. `check` adds rules that the type cannot express.
pub trait Request: DeserializeOwned + JsonSchema + Send {
    /// Adds one violation for each broken rule.
    fn check(&self, _broken: &mut Vec<Violation>) {}
}

/// The context of one run of a typed tool.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub call: &'a Call,
    pub caller: &'a dyn Caller,
    /// The earlier of the tool's limit and the caller's deadline.
    pub deadline: Instant,
}
