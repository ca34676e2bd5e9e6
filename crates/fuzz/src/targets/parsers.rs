//! Parsers without side effects.

use super::{Target, kind_of, target};
use bytes::Bytes;
use toolyard_formats::template;
use toolyard_formats::template::{Input, Template};
use toolyard_formats::uri_template::UriTemplate;
use toolyard_protocol::Payload;
use toolyard_wire::framing::{Decoder, Frame};
use toolyard_wire::jsonrpc::{self, Incoming, Message, Reject};
use toolyard_wire::mcp::{completion, initialize, lists, meta, prompts, resources, tools};
use toolyard_wire::{batch, dialog};

pub fn targets() -> Vec<Target> {
    vec![
        target("json_rpc", json_rpc),
        target("framing", framing),
        target("dialog", dialog_line),
        target("batch", |input| match batch::read(Bytes::copy_from_slice(input)) {
            Ok(_) => 0,
            Err(error) => kind_of(&error.message),
        }),
        target("template", templates),
        target("uri_template", uri_template),
    ]
}

fn json_rpc(input: &[u8]) -> u64 {
    match jsonrpc::read(&Bytes::copy_from_slice(input)) {
        Incoming::One(message) => message_kind(message),
        Incoming::Batch(messages) => {
            messages.into_iter().map(message_kind).fold(1, |all, one| all.wrapping_mul(31).wrapping_add(one))
        }
    }
}

fn message_kind(message: Result<Message, Reject>) -> u64 {
    let params = match message {
        Err(reject) => {
            drop(reject.write());
            return kind_of(&reject.error.message);
        }
        Ok(Message::Response(response)) => return 2 + u64::from(response.result.is_ok()),
        Ok(Message::Notification(notification)) => notification.params,
        Ok(Message::Request(request)) => request.params,
    };
    // Every parser of parameters gets them, whatever the method.
    let words = [
        initialize::read_initialize(&params).err(),
        tools::read_call(&params).err(),
        prompts::read_call(&params).err(),
        resources::read_part(&params).err(),
        completion::read(&params).err(),
        lists::read_cursor(&params)
            .and_then(|cursor| lists::decode_cursor(&cursor.unwrap_or_default()))
            .err(),
        meta::version(&params),
    ];
    kind_of(&words.map(Option::unwrap_or_default).join(" . "))
}

/// Decodes the input whole and in two pieces, which must give the same frames.
fn framing(input: &[u8]) -> u64 {
    let whole = frames(&[input]);
    let (first, second) = input.split_at(input.len() / 2);
    assert_eq!(whole, frames(&[first, second]), "a split changes the frames");
    kind_of(&whole.1).wrapping_add(whole.0.len().min(5) as u64)
}

fn frames(pieces: &[&[u8]]) -> (Vec<Frame>, String) {
    let mut decoder = Decoder::new(10_000);
    let mut found = Vec::new();
    for piece in pieces {
        let mut left = *piece;
        loop {
            match decoder.next(&mut left) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(fault) => return (found, fault.to_string()),
            }
        }
    }
    (found, "more".to_owned())
}

fn dialog_line(input: &[u8]) -> u64 {
    match dialog::read(&Bytes::copy_from_slice(input)) {
        Ok(line) => kind_of(&format!("{line:?}").chars().take(40).collect::<String>().to_lowercase()),
        Err(error) => kind_of(&error.message),
    }
}

/// As a text, a page, a URL and a JSON document.
fn templates(input: &[u8]) -> u64 {
    let source = String::from_utf8_lossy(input);
    let arguments = Payload::json(r#"{"a":"x y/é","n":7,"list":[1,2,3],"deep":{"b":null}}"#);
    let Ok(values) = Input::new(&arguments) else { return 0 };
    let mut kind = 0u64;
    for goal in
        [template::Target::Text, template::Target::Page, template::Target::Url, template::Target::Json]
    {
        let answer = match Template::parse(&source, goal) {
            Ok(parsed) => {
                parsed.variables();
                parsed.secrets_used();
                parsed.render(&values).err().map(|error| error.message).unwrap_or_default()
            }
            Err(what) => what,
        };
        kind = kind.wrapping_mul(31).wrapping_add(kind_of(&answer));
    }
    kind
}

/// The first line is the template, the second a URI to match.
fn uri_template(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let (source, uri) = text.split_once('\n').unwrap_or((&text, &text));
    match UriTemplate::parse(source) {
        Ok(parsed) => {
            let matched = parsed.matches(uri);
            parsed.variables().count() as u64 * 2 + u64::from(matched.is_some())
        }
        Err(what) => kind_of(&what),
    }
}
