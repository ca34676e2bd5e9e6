//! The gate in front of all resources: nothing that is read, listed or refused shows a secret, and nothing is written or
//! removed without its audit record.

use super::{ResourceChange, Resources, Watch};
use crate::behalf::{Behalf, Found};
use crate::gates;
use crate::pipeline::Engine;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{
    About, Annotations, Body, Call, Completing, Completion, Conduct, Digest, Error, ErrorKind, ExposedName,
    Limits, Outcome, Page, Part, Payload, Reading, Redactor, Resource, ResourceTemplate, Sandbox, Timing,
    ToolName, ToolSpec,
};

pub struct Guarded {
    inner: Arc<dyn Resources>,
    engine: Arc<Engine>,
}

impl Guarded {
    pub fn new(inner: Arc<dyn Resources>, engine: Arc<Engine>) -> Guarded {
        Guarded { inner, engine }
    }

    fn redactor(&self) -> &dyn Redactor {
        self.engine.redactor.as_ref()
    }

    fn hide<T>(&self, found: Result<T, Error>) -> Result<T, Error> {
        found.map_err(|error| self.engine.hide(error))
    }

    /// Does `work` between its two records. The log names it as it names a tool.
    async fn recorded(
        &self,
        (name, uri, bytes): (&str, &str, Option<usize>),
        behalf: Behalf<'_>,
        work: Found<'_, ()>,
    ) -> Result<(), Error> {
        let call = behalf.call(self.engine.call_id(), name, arguments(uri, bytes));
        let call = gates::redact::call(self.redactor(), &call).into_owned();
        let begun = self.begin(&call).await?;
        let outcome = match self.hide(work.await) {
            Ok(()) => Outcome::success(None),
            Err(error) => Outcome::failure(error),
        };
        let outcome = gates::record::end(&self.engine.audit, begun, outcome).await;
        outcome.error().map_or(Ok(()), |error| Err(Error { correlation_id: Some(call.id), ..error.clone() }))
    }

    async fn begin(&self, call: &Call) -> Result<crate::audit::Begun, Error> {
        let audit = &self.engine.audit;
        let begun = audit.begin(call, &spec(&call.tool)?).map_err(|error| Error::from(&error))?;
        audit.settled(begun.ticket()).await.map_err(|error| Error::from(&error))?;
        Ok(begun)
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
        conduct: Conduct::default(),
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

fn hide_in_reading(redactor: &dyn Redactor, reading: &mut Reading) -> Result<(), Error> {
    for part in &mut reading.parts {
        match &mut part.body {
            Body::Text(text) => gates::redact::hide(redactor, text),
            // Cutting something out of bytes would break them.
            Body::Blob(bytes) if redactor.text(&String::from_utf8_lossy(bytes)).is_some() => {
                return Err(Error::new(ErrorKind::Forbidden, "the resource holds a secret of this yard")
                    .hint("secrets are never given out; keep them out of what clients may read"));
            }
            Body::Blob(_) => {}
        }
        if let Some(meta) = &mut part.meta {
            gates::redact::hide_in_payload(redactor, meta);
        }
        part.mime.iter_mut().for_each(|mime| gates::redact::hide(redactor, mime));
    }
    Ok(())
}

fn hide_in_words(redactor: &dyn Redactor, words: [&mut Option<String>; 3], texts: [&mut String; 2]) {
    let words = words.into_iter().flatten();
    words.chain(texts).for_each(|text| gates::redact::hide(redactor, text));
}

impl Resources for Guarded {
    fn are_there(&self) -> bool {
        self.inner.are_there()
    }

    fn claims(&self, uri: &str) -> bool {
        self.inner.claims(uri)
    }

    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Page<Resource>> {
        Box::pin(async move {
            let mut page = self.hide(self.inner.list(cursor, behalf).await)?;
            for item in &mut page.items {
                let words = [&mut item.title, &mut item.description, &mut item.mime];
                hide_in_words(self.redactor(), words, [&mut item.uri, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        behalf: Behalf<'a>,
    ) -> Found<'a, Page<ResourceTemplate>> {
        Box::pin(async move {
            let mut page = self.hide(self.inner.templates(cursor, behalf).await)?;
            for item in &mut page.items {
                let words = [&mut item.title, &mut item.description, &mut item.mime];
                hide_in_words(self.redactor(), words, [&mut item.uri_template, &mut item.name]);
            }
            Ok(page)
        })
    }

    fn read<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Reading> {
        Box::pin(async move {
            let mut reading = self.hide(self.inner.read(uri, behalf).await)?;
            hide_in_reading(self.redactor(), &mut reading)?;
            Ok(reading)
        })
    }

    fn write<'a>(&'a self, part: Part, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(async move {
            let (uri, bytes) = (part.uri.clone(), part.body.len());
            let work = self.inner.write(part, behalf);
            self.recorded((WRITE, &uri, Some(bytes)), behalf, work).await
        })
    }

    fn delete<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(
            async move { self.recorded((DELETE, uri, None), behalf, self.inner.delete(uri, behalf)).await },
        )
    }

    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: Completing,
        behalf: Behalf<'a>,
    ) -> Found<'a, Completion> {
        Box::pin(async move {
            let mut found = self.hide(self.inner.complete(uri_template, completing, behalf).await)?;
            found.values.iter_mut().for_each(|value| gates::redact::hide(self.redactor(), value));
            Ok(found)
        })
    }

    fn watch<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Watch> {
        Box::pin(async move { self.hide(self.inner.watch(uri, behalf).await) })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.inner.changes()
    }
}
