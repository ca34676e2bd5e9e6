//! A typed tool: one Rust type goes in, one comes out; schema, listing, errors and wire form follow from them.

use crate::{Annotations, Call, Caller, Error, Timing, Violation};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::{Duration, Instant};

/// A tool written in Rust. `wire` erases it into something that takes and gives bytes of either format.
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
/// A tool that gives something else than it promises does not build. This one differs in the two lines of `run`:
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
/// Nor does one whose `run` promises the right type and gives another:
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
    /// Bytes of arguments, in whichever format they come.
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

/// What a typed tool takes. The type is the rule; `check` adds what the type cannot say.
pub trait Request: DeserializeOwned + JsonSchema + Send {
    /// Adds one violation for each broken rule.
    fn check(&self, _broken: &mut Vec<Violation>) {}
}

/// What surrounds one run of a typed tool.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub call: &'a Call,
    pub caller: &'a dyn Caller,
    /// The earlier of the tool's limit and the caller's deadline.
    pub deadline: Instant,
}
