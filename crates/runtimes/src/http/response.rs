//! Converts an HTTP response to an outcome, by status, content type and size.

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use std::borrow::Cow;
use std::time::Duration;
use toolyard_protocol::text::{escape_control, push_json_string};
use toolyard_protocol::{Error, ErrorKind, Outcome, Payload, Redactor};
use toolyard_sandbox::{OutputMemory, OutputReservation};
use toolyard_wire::child_io::{self, Contract};

/// `redactor` is applied before a text is truncated, because a partial secret could not be found later.
pub async fn read(
    mut response: Response,
    cap: usize,
    memory: &OutputMemory,
    redactor: &dyn Redactor,
) -> Result<Outcome, Error> {
    let status = response.status();
    let content_type =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut reservation = OutputReservation::new(memory, cap);
    let body = bounded_body(&mut response, cap, &mut reservation).await?;
    let kind = ContentKind::of(&content_type);
    if !status.is_success() {
        return Err(failed(status, retry_after, kind, body, redactor));
    }
    if body.is_empty() {
        return Ok(Outcome::success(None));
    }
    match kind {
        ContentKind::Json => {
            child_io::read(Contract::Document, reservation.hold(body)).map(|answer| answer.outcome)
        }
        ContentKind::Text => text(body, reservation),
        ContentKind::Other => {
            let message = format!(
                "the server answered with '{}', which is neither JSON nor text",
                escape_control(&content_type)
            );
            Err(Error::new(ErrorKind::InvalidOutput, message))
        }
    }
}

/// Reading stops at the cap, and the connection is dropped.
async fn bounded_body(
    response: &mut Response,
    cap: usize,
    reservation: &mut OutputReservation,
) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    loop {
        reservation.room(body.len()).await;
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > cap => {
                return Err(Error::new(
                    ErrorKind::OutputTooLarge,
                    format!("the server sent more than {cap} bytes"),
                )
                .hint("raise 'limits.output' in the tool's file"));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => {
                return Err(Error::new(ErrorKind::Unavailable, format!("the response broke off: {error}")));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ContentKind {
    Json,
    Text,
    Other,
}

impl ContentKind {
    fn of(content_type: &str) -> ContentKind {
        let plain = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if plain == "application/json" || plain.ends_with("+json") {
            ContentKind::Json
        } else if plain.starts_with("text/") {
            ContentKind::Text
        } else {
            ContentKind::Other
        }
    }
}

fn text(body: Vec<u8>, mut reservation: OutputReservation) -> Result<Outcome, Error> {
    let text = String::from_utf8(body)
        .map_err(|_| Error::new(ErrorKind::InvalidOutput, "the server's text is not UTF-8"))?;
    let mut quoted = Vec::with_capacity(text.len() + 2);
    push_json_string(&mut quoted, &text);
    Ok(Outcome::success(Some(Payload::json(reservation.hold(quoted)))))
}

fn failed(
    status: StatusCode,
    retry_after: Option<u64>,
    kind: ContentKind,
    body: Vec<u8>,
    redactor: &dyn Redactor,
) -> Error {
    let class = match status.as_u16() {
        429 => ErrorKind::RateLimited,
        502..=504 => ErrorKind::Unavailable,
        _ => ErrorKind::ToolFailed,
    };
    let detail = match kind {
        ContentKind::Json => child_io::read(Contract::Document, body.into())
            .ok()
            .and_then(|answer| answer.outcome.error().map(|error| error.message.clone())),
        ContentKind::Text => {
            let text = String::from_utf8_lossy(&body);
            let text = redactor.text(&text).map_or(text, Cow::Owned);
            Some(escape_control(&text[..text.floor_char_boundary(200)]))
        }
        ContentKind::Other => None,
    };
    let detail = detail
        .filter(|detail| !detail.trim().is_empty())
        .map_or(String::new(), |detail| format!(": {}", detail.trim()));
    Error::new(class, format!("the server answered {status}{detail}")).with(|details| {
        details.exit = Some(format!("HTTP {}", status.as_u16()));
        details.retry_after = retry_after.map(Duration::from_secs);
    })
}
