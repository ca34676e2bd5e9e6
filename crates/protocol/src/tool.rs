//! A typed tool: one Rust type goes in, one comes out; schema, listing, errors and wire form follow from them.

use crate::{Annotations, Call, Caller, Error, Timing, Violation};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::{Duration, Instant};

/// A tool written in Rust. `wire` erases it into something that takes and gives bytes of either format.
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
