//! Registry entries of typed tools.

use std::sync::Arc;
use toolyard_engine::{Candidate, Entry, Run, RunFuture, Runner, ToolLimiter};
use toolyard_protocol::name::NameError;
use toolyard_protocol::{
    About, Behavior, Check, Context, Digest, Error, ErrorKind, ExposedName, Limits, Outcome, Payload,
    Sandbox, Timing, ToolName, ToolSpec, Version, Violation,
};
use toolyard_wire::typed::{Typed, TypedSpec};

/// Shown by `list` instead of a file.
const SOURCE: &str = "builtin";

pub fn candidate(tool: Arc<dyn Typed>) -> Result<Candidate, NameError> {
    let spec = spec(tool.spec())?;
    // Arguments of a job are checked before it is created; without a job the run itself checks them.
    let input = (spec.timing != Timing::Sync).then(|| Box::new(TypedCheck(tool.clone())) as Box<dyn Check>);
    let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
    let entry = Entry {
        spec,
        runner: Box::new(InProcessRunner(tool)),
        input,
        output: None,
        cache_key: None,
        limiter,
    };
    Ok(Candidate { entry: Arc::new(entry), enabled: true })
}

fn spec(typed: &TypedSpec) -> Result<ToolSpec, NameError> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(ToolSpec {
        name: ToolName::parse(typed.name)?,
        exposed: exposed(typed.name)?,
        kind: "builtin",
        source: SOURCE.to_owned(),
        about: About {
            version: Version::parse(version),
            title: Some(typed.title.to_owned()),
            description: Some(typed.description.to_owned()),
            categories: Vec::new(),
        },
        annotations: typed.annotations,
        timing: typed.timing,
        limits: Limits { timeout: typed.timeout, input: typed.input, output: typed.output },
        behavior: Behavior { guarded: typed.guarded, ..Behavior::default() },
        sandbox: Sandbox::NotNeeded,
        permissions: Default::default(),
        examples: Vec::new(),
        digest: digest(typed, version),
        input_schema: Some(typed.input_schema.clone()),
        output_schema: Some(typed.output_schema.clone()),
    })
}

/// `echo` for `yard.echo`, `cas_store` for `cas.store`.
fn exposed(name: &str) -> Result<ExposedName, NameError> {
    ExposedName::parse(&name.strip_prefix("yard.").unwrap_or(name).replace('.', "_"))
}

/// Length-prefixed, so that different parts cannot hash alike.
fn digest(typed: &TypedSpec, version: &str) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let (input, output) = (typed.input_schema.bytes(), typed.output_schema.bytes());
    for part in [typed.name.as_bytes(), version.as_bytes(), input, output] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Runs the tool in this process; dropping the future cancels it.
struct InProcessRunner(Arc<dyn Typed>);

impl Runner for InProcessRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move {
            let context = Context { call: run.call, caller: run.caller, deadline: run.deadline };
            let work = self.0.run(&run.call.arguments, context);
            let Ok(ended) = tokio::time::timeout_at(run.deadline.into(), work).await else {
                return Err(timeout_error(run.spec));
            };
            ended
                .and_then(|response| check_output_size(run.spec, response))
                .map(|data| Outcome::success(Some(data)))
        })
    }
}

fn timeout_error(spec: &ToolSpec) -> Error {
    let limit = spec.limits.timeout.as_millis();
    let message = format!("'{}' did not finish in time (its limit is {limit} ms)", spec.exposed);
    Error::new(ErrorKind::Timeout, message)
}

fn check_output_size(spec: &ToolSpec, response: Payload) -> Result<Payload, Error> {
    if response.len() <= spec.limits.output {
        return Ok(response);
    }
    let message = format!(
        "the response of '{}' has {} bytes; the maximum is {}",
        spec.exposed,
        response.len(),
        spec.limits.output
    );
    Err(Error::new(ErrorKind::OutputTooLarge, message).hint("request less: a smaller limit or a part"))
}

/// Checks arguments against the request type before the run.
struct TypedCheck(Arc<dyn Typed>);

impl Check for TypedCheck {
    fn check(&self, arguments: &Payload) -> Result<(), Vec<Violation>> {
        self.0.check(arguments)
    }
}
