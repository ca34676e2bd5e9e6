//! Prompts that clients can list, render and complete. Edges use this trait; prompt packs and upstream
//! servers implement it.
//!
//! Errors: an unknown prompt is `ErrorKind::ResourceNotFound`; invalid arguments and an unknown cursor are
//! `ErrorKind::InvalidInput`.

use crate::request_context::{RequestContext, RequestFuture};
use tokio::sync::watch;
use toolyard_protocol::{
    Completion, CompletionRequest, Error, ErrorKind, Page, Payload, Prompt, PromptPack, PromptSource,
    RenderedPrompt,
};

pub trait Prompts: Send + Sync {
    /// Whether prompts are supported; edges advertise the capability only if so.
    fn is_available(&self) -> bool {
        true
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Prompt>>;

    /// `arguments` is a JSON object. A prompt produced by a tool may ask the caller for input.
    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: Payload,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, RenderedPrompt>;

    fn complete<'a>(
        &'a self,
        name: &'a str,
        completing: CompletionRequest,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion>;

    /// The prompts defined by files, with their versions.
    fn packs(&self) -> Vec<PromptPack> {
        Vec::new()
    }

    /// The source text of one version of a prompt.
    fn text(&self, domain: &str, name: &str, _major: u32) -> Result<PromptSource, Error> {
        Err(prompt_not_found(&format!("{domain}/{name}")))
    }

    /// Whether rendering the prompt twice has no more effect than rendering it once.
    fn is_safe_to_repeat(&self, _name: &str) -> bool {
        true
    }

    /// Incremented whenever the prompt list changes.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Prompts are not supported.
pub struct NoPrompts(watch::Sender<u64>);

impl Default for NoPrompts {
    fn default() -> NoPrompts {
        NoPrompts(watch::Sender::new(0))
    }
}

impl Prompts for NoPrompts {
    fn is_available(&self) -> bool {
        false
    }

    fn list<'a>(&'a self, _: Option<&'a str>, _: RequestContext<'a>) -> RequestFuture<'a, Page<Prompt>> {
        Box::pin(std::future::ready(Ok(Page::whole(Vec::new()))))
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        _: Payload,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, RenderedPrompt> {
        Box::pin(std::future::ready(Err(prompt_not_found(name))))
    }

    fn complete<'a>(
        &'a self,
        name: &'a str,
        _: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(std::future::ready(Err(prompt_not_found(name))))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The error for an unknown prompt.
pub fn prompt_not_found(name: &str) -> Error {
    let shown: String = toolyard_protocol::text::escape_control(name).chars().take(100).collect();
    Error::new(ErrorKind::ResourceNotFound, format!("there is no prompt '{shown}'"))
        .hint("list the prompts to see what is available")
}
