//! Prompts that clients can list, fill in and have completed. Edges see this trait; prompt packs and upstream servers
//! stand behind it.
//!
//! Errors: a prompt that is not there is `ErrorKind::ResourceNotFound`; arguments that do not fit, and a cursor that
//! was not given out, are `ErrorKind::InvalidInput`.

use crate::request_context::{RequestContext, RequestFuture};
use tokio::sync::watch;
use toolyard_protocol::{
    Completion, CompletionRequest, Error, ErrorKind, Page, Payload, Prompt, PromptPack, PromptSource,
    RenderedPrompt,
};

pub trait Prompts: Send + Sync {
    /// Whether there can be any; an edge that has none does not advertise them.
    fn is_available(&self) -> bool {
        true
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Prompt>>;

    /// `arguments` is a JSON object. A prompt that a tool makes may ask its caller.
    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: Payload,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, RenderedPrompt>;

    fn complete<'a>(
        &'a self,
        name: &'a str,
        completing: CompletionRequest,
        request_context: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion>;

    /// Those that come from files, with their versions.
    fn packs(&self) -> Vec<PromptPack> {
        Vec::new()
    }

    /// One version of them as it is written.
    fn text(&self, domain: &str, name: &str, _major: u32) -> Result<PromptSource, Error> {
        Err(prompt_not_found(&format!("{domain}/{name}")))
    }

    /// Whether making it a second time does no more harm than making it once.
    fn is_safe_to_repeat(&self, _name: &str) -> bool {
        true
    }

    /// A number that is another one whenever the list is.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// No prompts at all.
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

/// The error for a prompt that is not there.
pub fn prompt_not_found(name: &str) -> Error {
    let shown: String = toolyard_protocol::text::escape_control(name).chars().take(100).collect();
    Error::new(ErrorKind::ResourceNotFound, format!("there is no prompt '{shown}'"))
        .hint("list the prompts to see what there is")
}
