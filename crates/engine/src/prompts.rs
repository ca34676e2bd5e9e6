//! Prompts that clients can list, fill in and have completed. Edges see this trait; prompt packs and upstream servers
//! stand behind it.
//!
//! Errors: a prompt that is not there is `ErrorKind::ResourceNotFound`; arguments that do not fit, and a cursor that
//! was not given out, are `ErrorKind::InvalidInput`.

use crate::behalf::{Behalf, Found};
use tokio::sync::watch;
use toolyard_protocol::{
    Completing, Completion, Error, ErrorKind, Filled, Page, Payload, Prompt, PromptPack, PromptText,
};

pub trait Prompts: Send + Sync {
    /// Whether there can be any; an edge that has none does not advertise them.
    fn are_there(&self) -> bool {
        true
    }

    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Page<Prompt>>;

    /// `arguments` is a JSON object. A prompt that a tool makes may ask its caller.
    fn get<'a>(&'a self, name: &'a str, arguments: Payload, behalf: Behalf<'a>) -> Found<'a, Filled>;

    fn complete<'a>(
        &'a self,
        name: &'a str,
        completing: Completing,
        behalf: Behalf<'a>,
    ) -> Found<'a, Completion>;

    /// Those that come from files, with their versions.
    fn packs(&self) -> Vec<PromptPack> {
        Vec::new()
    }

    /// One version of them as it is written.
    fn text(&self, domain: &str, name: &str, _major: u32) -> Result<PromptText, Error> {
        Err(no_prompt(&format!("{domain}/{name}")))
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
    fn are_there(&self) -> bool {
        false
    }

    fn list<'a>(&'a self, _: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<Prompt>> {
        Box::pin(std::future::ready(Ok(Page::whole(Vec::new()))))
    }

    fn get<'a>(&'a self, name: &'a str, _: Payload, _: Behalf<'a>) -> Found<'a, Filled> {
        Box::pin(std::future::ready(Err(no_prompt(name))))
    }

    fn complete<'a>(&'a self, name: &'a str, _: Completing, _: Behalf<'a>) -> Found<'a, Completion> {
        Box::pin(std::future::ready(Err(no_prompt(name))))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The error for a prompt that is not there.
pub fn no_prompt(name: &str) -> Error {
    let shown: String = toolyard_protocol::text::visible(name).chars().take(100).collect();
    Error::new(ErrorKind::ResourceNotFound, format!("there is no prompt '{shown}'"))
        .hint("list the prompts to see what there is")
}
