//! The gates of all resources: everything read or listed, and every error, is redacted; every write and
//! delete passes the gates of a call.

use super::{ResourceChange, Resources, WatchGuard};
use crate::execute::{Engine, Execution};
use crate::gates;
use crate::gates::concurrency::ToolLimiter;
use crate::registry::{Entry, Run, RunFuture, Runner};
use crate::request_context::{RequestContext, RequestFuture};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use toolyard_protocol::json::Object;
use toolyard_protocol::{
    About, Annotations, Behavior, Body, Call, Completion, CompletionRequest, Digest, Error, ErrorKind,
    ExposedName, Guarded, Limits, Outcome, Page, Payload, ReadResult, Redactor, Resource, ResourceContents,
    ResourceTemplate, Sandbox, Timing, ToolName, ToolSpec,
};

pub struct GatedResources {
    inner: Arc<dyn Resources>,
    engine: Arc<Engine>,
}

impl GatedResources {
    pub fn new(inner: Arc<dyn Resources>, engine: Arc<Engine>) -> GatedResources {
        GatedResources { inner, engine }
    }

    fn redactor(&self) -> &dyn Redactor {
        self.engine.redactor.as_ref()
    }

    fn redact_result<T>(&self, found: Result<T, Error>) -> Result<T, Error> {
        found.map_err(|error| self.engine.redact_error(error))
    }

    /// Passes every gate like a tool call and is recorded as one in the audit log.
    async fn change(&self, change: Change, context: RequestContext<'_>) -> Result<(), Error> {
        let (name, arguments) = match &change {
            Change::Write(part) => (WRITE, arguments(&part.uri, Some(part.body.len()))),
            Change::Delete(uri) => (DELETE, arguments(uri, None)),
        };
        let runner = Box::new(ChangeRunner { resources: self.inner.clone(), change });
        let spec = spec(name)?;
        let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
        let entry = Entry { spec, runner, input: None, output: None, cache_key: None, limiter };
        let call = context.call(self.engine.call_id(), name, arguments);
        let execution = Execution::Operation(Arc::new(entry), context.caller);
        let outcome = self.engine.execute(&call, execution).await;
        outcome.error().cloned().map_or(Ok(()), Err)
    }
}

/// A write or delete as an operation that the engine can run.
struct ChangeRunner {
    resources: Arc<dyn Resources>,
    change: Change,
}

enum Change {
    Write(ResourceContents),
    Delete(String),
}

impl Runner for ChangeRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        let Call { identity, edge, trace, .. } = run.call;
        let context = RequestContext { identity, edge: *edge, trace: *trace, caller: run.caller };
        Box::pin(async move {
            match &self.change {
                Change::Write(part) => self.resources.write(part.clone(), context).await?,
                Change::Delete(uri) => self.resources.delete(uri, context).await?,
            }
            Ok(Outcome::success(None))
        })
    }
}

/// Longer than any disk write takes.
const TIMEOUT: Duration = Duration::from_secs(3600);
const WRITE: &str = "resource.write";
const DELETE: &str = "resource.delete";

/// The specification of an operation that is not a tool, for the gates and the audit log.
fn spec(name: &str) -> Result<ToolSpec, Error> {
    let wrong = |error| Error::new(ErrorKind::Internal, format!("'{name}': {error}"));
    Ok(ToolSpec {
        name: ToolName::parse(name).map_err(wrong)?,
        exposed: ExposedName::parse(&name.replace('.', "_")).map_err(wrong)?,
        kind: "resource",
        source: "resource".to_owned(),
        about: About::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        limits: Limits { timeout: TIMEOUT, input: usize::MAX, output: usize::MAX },
        behavior: Behavior { guarded: Some(Guarded::WritesFiles), ..Behavior::default() },
        sandbox: Sandbox::NotNeeded,
        permissions: Default::default(),
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: None,
        output_schema: None,
    })
}

/// `{"uri": …, "bytes": …}`: the URI and the size, but not the content.
fn arguments(uri: &str, bytes: Option<usize>) -> Payload {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    object.text("uri", uri);
    if let Some(bytes) = bytes {
        object.number("bytes", bytes as u64);
    }
    object.end();
    Payload::json(out)
}

fn redact_reading(redactor: &dyn Redactor, reading: &mut ReadResult) -> Result<(), Error> {
    for part in &mut reading.parts {
        match &mut part.body {
            Body::Text(text) => gates::redact::redact_text(redactor, text),
            // Removing bytes from binary content would corrupt it.
            Body::Blob(bytes) if redactor.text(&String::from_utf8_lossy(bytes)).is_some() => {
                return Err(Error::new(ErrorKind::Forbidden, "the resource contains a secret of this yard")
                    .hint("secrets are never sent to clients; remove the secret from the resource"));
            }
            Body::Blob(_) => {}
        }
        if let Some(meta) = &mut part.meta {
            gates::redact::redact_payload(redactor, meta);
        }
        part.mime.iter_mut().for_each(|mime| gates::redact::redact_text(redactor, mime));
    }
    Ok(())
}

fn redact_fields(redactor: &dyn Redactor, optional: [&mut Option<String>; 3], texts: [&mut String; 2]) {
    let optional = optional.into_iter().flatten();
    optional.chain(texts).for_each(|text| gates::redact::redact_text(redactor, text));
}

impl Resources for GatedResources {
    fn is_available(&self) -> bool {
        self.inner.is_available()
    }

    fn claims(&self, uri: &str) -> bool {
        self.inner.claims(uri)
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(async move {
            let mut page = self.redact_result(self.inner.list(cursor, context).await)?;
            for item in &mut page.items {
                let optional = [&mut item.title, &mut item.description, &mut item.mime];
                redact_fields(self.redactor(), optional, [&mut item.uri, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        Box::pin(async move {
            let mut page = self.redact_result(self.inner.templates(cursor, context).await)?;
            for item in &mut page.items {
                let optional = [&mut item.title, &mut item.description, &mut item.mime];
                redact_fields(self.redactor(), optional, [&mut item.uri_template, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            let mut reading = self.redact_result(self.inner.read(uri, context).await)?;
            redact_reading(self.redactor(), &mut reading)?;
            Ok(reading)
        })
    }

    fn write<'a>(&'a self, part: ResourceContents, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(self.change(Change::Write(part), context))
    }

    fn delete<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(self.change(Change::Delete(uri.to_owned()), context))
    }

    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(async move {
            let mut found =
                self.redact_result(self.inner.complete(uri_template, completing, context).await)?;
            found.values.iter_mut().for_each(|value| gates::redact::redact_text(self.redactor(), value));
            Ok(found)
        })
    }

    fn watch<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move { self.redact_result(self.inner.watch(uri, context).await) })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.inner.changes()
    }
}
