//! Serves a yard's prompts to the edges. Tools that build prompts run through the engine like any other call.

use super::index::PromptIndex;
use super::spec::CompletionSource;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use toolyard_engine::{Engine, Prompts, RequestContext, RequestFuture};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{
    CachePolicy, Call, Completion, CompletionRequest, Error, ErrorKind, Outcome, Page, Payload, Prompt,
    PromptPack, PromptSource, RenderedPrompt, Wait,
};
use toolyard_wire::prompt;

/// A reload sends a notification; a client that does not subscribe may cache this long.
const CACHE_POLICY: CachePolicy = CachePolicy { ttl: Duration::from_secs(5), shared: false };

pub struct PromptService {
    index: Arc<PromptIndex>,
    engine: Arc<Engine>,
}

impl PromptService {
    pub fn new(index: Arc<PromptIndex>, engine: Arc<Engine>) -> PromptService {
        PromptService { index, engine }
    }

    /// The schema of a prompt's arguments: its own, else that of its tool.
    pub fn inputs(&self, name: &str) -> Option<Payload> {
        let packs = self.index.packs();
        let (_, version) = packs.find(name).ok()?;
        version.spec.inputs(&self.engine.registry)
    }

    /// Redacts secrets in an error about arguments that were rejected before the call.
    pub fn hide(&self, error: Error) -> Error {
        self.engine.redact_error(error)
    }

    async fn fill(
        &self,
        name: &str,
        arguments: Payload,
        context: RequestContext<'_>,
    ) -> Result<RenderedPrompt, Error> {
        let packs = self.index.packs();
        let (pack, version) = packs.find(name)?;
        let arguments = version.check(&pack.exposed, arguments)?;
        let Some(tool) = &version.spec.tool else { return version.fill(&arguments) };
        let outcome = self.call(&tool.name, arguments, context).await?;
        let filled = prompt::from_outcome(&outcome)?;
        let description = filled.description.or_else(|| version.spec.description.clone());
        Ok(RenderedPrompt { description, ..filled })
    }

    async fn suggest(
        &self,
        name: &str,
        completing: CompletionRequest,
        context: RequestContext<'_>,
    ) -> Result<Completion, Error> {
        let packs = self.index.packs();
        let (pack, version) = packs.find(name)?;
        let spec = &version.spec;
        let argument = completing.argument.as_str();
        match spec.complete.iter().find(|(name, _)| name == argument) {
            Some((_, CompletionSource::Values(texts))) => Ok(starting_with(texts, &completing.value)),
            Some((_, CompletionSource::Tool(tool))) => {
                let request = prompt::completion_request(&completing);
                prompt::suggestions(&self.call(&tool.name, request, context).await?)
            }
            None => {
                let schema = spec.inputs(&self.engine.registry).unwrap_or_else(|| Payload::json("{}"));
                if !prompt::arguments(&schema).iter().any(|known| known.name == argument) {
                    let shown = escape_control(argument);
                    let message = format!("the prompt '{}' has no argument '{shown}'", pack.exposed);
                    return Err(Error::new(ErrorKind::InvalidInput, message)
                        .hint("the list of prompts names the arguments of each"));
                }
                Ok(starting_with(&prompt::choices(&schema, argument), &completing.value))
            }
        }
    }

    async fn call(
        &self,
        tool: &str,
        arguments: Payload,
        context: RequestContext<'_>,
    ) -> Result<Outcome, Error> {
        let call = context.call(self.engine.call_id(), tool, arguments);
        // A prompt request waits for the result, whatever timing its tool declares.
        let outcome = self.engine.run(Call { wait: Wait::UntilDone, ..call }, context.caller).await;
        match outcome.error() {
            None => Ok(outcome),
            Some(error) if error.kind == ErrorKind::UnknownTool => {
                let message = format!("the tool '{tool}' that builds the prompt was not found");
                Err(Error::new(ErrorKind::Unavailable, message).hint("'toolyard check' names the prompt"))
            }
            Some(error) => Err(error.clone()),
        }
    }
}

impl Prompts for PromptService {
    fn list<'a>(&'a self, cursor: Option<&'a str>, _: RequestContext<'a>) -> RequestFuture<'a, Page<Prompt>> {
        let found = match cursor {
            // All prompts fit on one page, so no cursor is ever issued.
            Some(_) => Err(Error::new(ErrorKind::InvalidInput, "unknown cursor")
                .hint("list the prompts without a cursor")),
            None => {
                let rows = self.index.packs().list(&self.engine.registry);
                let items = rows.into_iter().map(|row| row.prompt).collect();
                Ok(Page { items, next: None, cache_policy: CACHE_POLICY })
            }
        };
        Box::pin(std::future::ready(found))
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: Payload,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, RenderedPrompt> {
        Box::pin(async move {
            let mut filled =
                self.fill(name, arguments, context).await.map_err(|error| self.engine.redact_error(error))?;
            // Text from files and callers is redacted like the output of tools.
            if let Some(hidden) = self.engine.redactor.payload(&filled.messages) {
                filled.messages = hidden;
            }
            Ok(filled)
        })
    }

    fn complete<'a>(
        &'a self,
        name: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(async move {
            let found = self.suggest(name, completing, context).await;
            found.map_err(|error| self.engine.redact_error(error))
        })
    }

    fn packs(&self) -> Vec<PromptPack> {
        self.index.packs().with_versions()
    }

    fn text(&self, domain: &str, name: &str, major: u32) -> Result<PromptSource, Error> {
        let packs = self.index.packs();
        let found = packs.find(&format!("{domain}/{name}@{major}"));
        let (_, version) = found.map_err(|error| self.engine.redact_error(error))?;
        let spec = &version.spec;
        // Text from files is redacted like the output of tools.
        let text = |text: &str| self.engine.redactor.text(text).unwrap_or_else(|| text.to_owned());
        let payload = |payload: Payload| self.engine.redactor.payload(&payload).unwrap_or(payload);
        Ok(PromptSource {
            body: version.body.as_ref().map(|body| text(body.source())),
            title: spec.title.as_deref().map(text),
            description: spec.description.as_deref().map(text),
            inputs: spec.inputs(&self.engine.registry).map(payload),
            constraints: spec.constraints.clone().map(payload),
        })
    }

    fn is_safe_to_repeat(&self, name: &str) -> bool {
        let packs = self.index.packs();
        let tool = packs.find(name).ok().and_then(|(_, version)| version.spec.tool.as_ref());
        let entry = tool.and_then(|tool| self.engine.registry.find(&tool.name));
        entry.is_none_or(|entry| entry.spec.annotations.is_safe_to_repeat())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.index.changes()
    }
}

/// The values that start with the typed text, ignoring case, in declared order.
fn starting_with(texts: &[String], typed: &str) -> Completion {
    let typed = typed.to_lowercase();
    let values: Vec<String> =
        texts.iter().filter(|text| text.to_lowercase().starts_with(&typed)).cloned().collect();
    Completion { total: Some(values.len() as u64), values }
}
