//! The gate in front of all resources: nothing that is read, listed or refused shows a secret, and nothing is written or
//! removed without its audit record.

use super::{ResourceChange, Resources, WatchGuard};
use crate::execute::{Engine, Execution};
use crate::gates;
use crate::gates::concurrency::ToolLimiter;
use crate::registry::{Entry, Run, RunFuture, Runner};
use crate::request_context::{RequestContext, RequestFuture};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{
    About, Annotations, Behavior, Body, Call, Completion, CompletionRequest, Digest, Error, ErrorKind,
    ExposedName, Limits, Outcome, Page, Payload, ReadResult, Redactor, Resource, ResourceContents,
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

    /// Passes every gate like a call of a tool; the audit log names it as one.
    async fn change(&self, change: Change, request_context: RequestContext<'_>) -> Result<(), Error> {
        let (name, arguments) = match &change {
            Change::Write(part) => (WRITE, arguments(&part.uri, Some(part.body.len()))),
            Change::Delete(uri) => (DELETE, arguments(uri, None)),
        };
        let runner = Box::new(ChangeRunner { resources: self.inner.clone(), change });
        let spec = spec(name)?;
        let limiter = Arc::new(ToolLimiter::new(&spec.behavior));
        let entry = Entry { spec, runner, input: None, output: None, cache_key: None, limiter };
        let call = request_context.call(self.engine.call_id(), name, arguments);
        let execution = Execution::Operation(Arc::new(entry), request_context.caller);
        let outcome = self.engine.execute(&call, execution).await;
        outcome.error().cloned().map_or(Ok(()), Err)
    }
}

/// A change of a resource as an operation that the engine can run.
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

/// Longer than any disk takes.
const TIMEOUT: Duration = Duration::from_secs(3600);
const WRITE: &str = "resource.write";
const DELETE: &str = "resource.delete";

/// What the audit log needs to know about an act that is no tool.
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
        behavior: Behavior::default(),
        sandbox: Sandbox::NotNeeded,
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: None,
        output_schema: None,
    })
}

/// `{"uri": …, "bytes": …}`: which resource, and how much, but not what.
fn arguments(uri: &str, bytes: Option<usize>) -> Payload {
    let mut out = b"{\"uri\":".to_vec();
    push_json_string(&mut out, uri);
    if let Some(bytes) = bytes {
        out.extend_from_slice(format!(",\"bytes\":{bytes}").as_bytes());
    }
    out.push(b'}');
    Payload::json(out)
}

fn redact_reading(redactor: &dyn Redactor, reading: &mut ReadResult) -> Result<(), Error> {
    for part in &mut reading.parts {
        match &mut part.body {
            Body::Text(text) => gates::redact::redact_text(redactor, text),
            // Cutting something out of bytes would break them.
            Body::Blob(bytes) if redactor.text(&String::from_utf8_lossy(bytes)).is_some() => {
                return Err(Error::new(ErrorKind::Forbidden, "the resource holds a secret of this yard")
                    .hint("secrets are never given out; keep them out of what clients may read"));
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

fn redact_fields(redactor: &dyn Redactor, words: [&mut Option<String>; 3], texts: [&mut String; 2]) {
    let words = words.into_iter().flatten();
    words.chain(texts).for_each(|text| gates::redact::redact_text(redactor, text));
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
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(async move {
            let mut page = self.redact_result(self.inner.list(cursor, request_context).await)?;
            for item in &mut page.items {
                let words = [&mut item.title, &mut item.description, &mut item.mime];
                redact_fields(self.redactor(), words, [&mut item.uri, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        Box::pin(async move {
            let mut page = self.redact_result(self.inner.templates(cursor, request_context).await)?;
            for item in &mut page.items {
                let words = [&mut item.title, &mut item.description, &mut item.mime];
                redact_fields(self.redactor(), words, [&mut item.uri_template, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            let mut reading = self.redact_result(self.inner.read(uri, request_context).await)?;
            redact_reading(self.redactor(), &mut reading)?;
            Ok(reading)
        })
    }

    fn write<'a>(
        &'a self,
        part: ResourceContents,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, ()> {
        Box::pin(self.change(Change::Write(part), request_context))
    }

    fn delete<'a>(&'a self, uri: &'a str, request_context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(self.change(Change::Delete(uri.to_owned()), request_context))
    }

    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: CompletionRequest,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(async move {
            let mut found =
                self.redact_result(self.inner.complete(uri_template, completing, request_context).await)?;
            found.values.iter_mut().for_each(|value| gates::redact::redact_text(self.redactor(), value));
            Ok(found)
        })
    }

    fn watch<'a>(
        &'a self,
        uri: &'a str,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move { self.redact_result(self.inner.watch(uri, request_context).await) })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.inner.changes()
    }
}
