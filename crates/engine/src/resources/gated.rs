//! The gate in front of all resources: nothing that is read, listed or refused shows a secret, and nothing is written or
//! removed without its audit record.

use super::{ResourceChange, Resources, WatchGuard};
use crate::gates;
use crate::pipeline::Engine;
use crate::request_context::{RequestContext, RequestFuture};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{
    About, Annotations, Behavior, Body, Completion, CompletionRequest, Digest, Error, ErrorKind, ExposedName,
    Limits, Outcome, Page, Payload, ReadResult, Redactor, Resource, ResourceContents, ResourceTemplate,
    Sandbox, Timing, ToolName, ToolSpec,
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

    /// Does `work` between its two records. The log names it as it names a tool.
    async fn with_audit_record(
        &self,
        (name, uri, bytes): (&str, &str, Option<usize>),
        request_context: RequestContext<'_>,
        work: RequestFuture<'_, ()>,
    ) -> Result<(), Error> {
        let call = request_context.call(self.engine.call_id(), name, arguments(uri, bytes));
        let call = gates::redact::call(self.redactor(), &call).into_owned();
        let open_record = self.engine.audit.clone().begin(&call, &spec(&call.tool)?).await?;
        let outcome = match self.redact_result(work.await) {
            Ok(()) => Outcome::success(None),
            Err(error) => Outcome::failure(error),
        };
        let outcome = gates::record::end(open_record, outcome).await;
        outcome.error().map_or(Ok(()), |error| Err(Error { correlation_id: Some(call.id), ..error.clone() }))
    }
}

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
        limits: Limits { timeout: Duration::MAX, input: usize::MAX, output: usize::MAX },
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
        Box::pin(async move {
            let (uri, bytes) = (part.uri.clone(), part.body.len());
            let work = self.inner.write(part, request_context);
            self.with_audit_record((WRITE, &uri, Some(bytes)), request_context, work).await
        })
    }

    fn delete<'a>(&'a self, uri: &'a str, request_context: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move {
            self.with_audit_record(
                (DELETE, uri, None),
                request_context,
                self.inner.delete(uri, request_context),
            )
            .await
        })
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
