//! Gate: secrets are redacted, so that nothing validated, cached, recorded or returned after it contains one.

use super::Ran;
use std::borrow::Cow;
use toolyard_protocol::{Call, Error, Outcome, Payload, Redactor};

/// JSON-RPC's code for an internal error.
const INTERNAL_ERROR: i64 = -32603;

/// Redacts the result of a run, or the error of a call that failed or was refused.
pub fn result(redactor: &dyn Redactor, ran: Result<Ran, Error>) -> Result<Ran, Error> {
    match ran {
        Ok(ran) => Ok(Ran { outcome: outcome(redactor, ran.outcome), ..ran }),
        Err(failed) => Err(error(redactor, failed)),
    }
}

pub fn outcome(redactor: &dyn Redactor, mut outcome: Outcome) -> Outcome {
    outcome.payloads_mut().for_each(|payload| redact_payload(redactor, payload));
    if let Some(error) = outcome.error_mut() {
        redact_error(redactor, error);
    }
    if let Some(explanation) = outcome.explanation_mut() {
        redact_text(redactor, explanation);
    }
    outcome.meta.warnings.iter_mut().for_each(|warning| redact_text(redactor, warning));
    outcome
}

pub fn error(redactor: &dyn Redactor, mut error: Error) -> Error {
    redact_error(redactor, &mut error);
    error
}

/// The call as it may be recorded; the tool receives the original.
pub fn call<'c>(redactor: &dyn Redactor, call: &'c Call) -> Cow<'c, Call> {
    let mut redacted = Cow::Borrowed(call);
    if let Some(arguments) = redactor.payload(&call.arguments) {
        redacted.to_mut().arguments = arguments;
    }
    if let Some(tool) = redactor.text(&call.tool) {
        redacted.to_mut().tool = tool;
    }
    if let Some(key) = call.idempotency_key.as_deref().and_then(|key| redactor.text(key)) {
        redacted.to_mut().idempotency_key = Some(key);
    }
    redacted
}

fn redact_error(redactor: &dyn Redactor, error: &mut Error) {
    redact_text(redactor, &mut error.message);
    let details = &mut *error.details;
    let texts = [&mut error.hint, &mut details.stderr, &mut details.exit, &mut details.tool_code];
    texts.into_iter().flatten().for_each(|text| redact_text(redactor, text));
    for violation in &mut details.violations {
        redact_text(redactor, &mut violation.pointer);
        redact_text(redactor, &mut violation.message);
    }
    if let Some(payload) = &mut details.tool_details {
        redact_payload(redactor, payload);
    }
    if let Some(rpc) = &mut details.rpc {
        redact_text(redactor, &mut rpc.message);
        rpc.data.iter_mut().for_each(|data| redact_payload(redactor, data));
        // A number can be a secret too.
        if redactor.text(&rpc.code.to_string()).is_some() {
            rpc.code = INTERNAL_ERROR;
        }
    }
}

pub fn redact_payload(redactor: &dyn Redactor, payload: &mut Payload) {
    if let Some(hidden) = redactor.payload(payload) {
        *payload = hidden;
    }
}

pub fn redact_text(redactor: &dyn Redactor, text: &mut String) {
    if let Some(hidden) = redactor.text(text) {
        *text = hidden;
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use toolyard_protocol::{Edge, ErrorKind, Id, Identity, Payload, RpcError, Violation};

    /// Redacts the word `hush`.
    pub struct HushRedactor;

    impl Redactor for HushRedactor {
        fn text(&self, text: &str) -> Option<String> {
            text.contains("hush").then(|| text.replace("hush", "[x]"))
        }

        fn payload(&self, payload: &Payload) -> Option<Payload> {
            self.text(std::str::from_utf8(payload.bytes()).unwrap()).map(Payload::json)
        }
    }

    #[test]
    fn no_part_of_an_outcome_is_forgotten() {
        let data = || Payload::json(r#""hush""#);
        let failed = Error::new(ErrorKind::ToolFailed, "hush").hint("hush").with(|details| {
            details.stderr = Some("hush".into());
            details.exit = Some("hush".into());
            details.tool_code = Some("hush".into());
            details.tool_details = Some(data());
            details.rpc = Some(RpcError { code: 1, message: "hush".into(), data: Some(data()) });
            details.violations = vec![Violation { pointer: "/hush".into(), message: "hush".into() }];
        });
        let mut given = Outcome::new(toolyard_protocol::Status::PartialSuccess, Some(data()), Some(failed))
            .unwrap()
            .with_content(data())
            .with_explanation("hush");
        given.meta.warnings = vec!["hush".into()];
        given.meta.tool_meta = Some(data());
        let shown = outcome(&HushRedactor, given);
        assert!(!format!("{shown:?}").contains("hush"), "{shown:?}");
        let details = &shown.error().unwrap().details;
        let rpc = details.rpc.as_ref().unwrap();
        let payloads = [
            shown.data(),
            shown.content(),
            details.tool_details.as_ref(),
            rpc.data.as_ref(),
            shown.meta.tool_meta.as_ref(),
        ];
        assert!(payloads.iter().all(|payload| &payload.unwrap().bytes()[..] == br#""[x]""#));
    }

    #[test]
    fn an_error_code_that_is_a_secret_becomes_that_of_an_internal_error() {
        struct NumberRedactor;
        impl Redactor for NumberRedactor {
            fn text(&self, text: &str) -> Option<String> {
                text.contains("4321").then(|| "[x]".to_owned())
            }

            fn payload(&self, _: &Payload) -> Option<Payload> {
                None
            }
        }
        for (code, expected) in [(4321, -32603), (-4322, -4322)] {
            let failed = Error::new(ErrorKind::ToolFailed, "no").with(|details| {
                details.rpc = Some(RpcError { code, message: "no".into(), data: None });
            });
            assert_eq!(error(&NumberRedactor, failed).details.rpc.unwrap().code, expected);
        }
    }

    #[test]
    fn the_recorded_call_is_a_copy_only_when_something_is_hidden() {
        let mut asked = Call {
            id: Id::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap(),
            tool: "t".into(),
            arguments: Payload::json("{}"),
            identity: Identity::local(),
            edge: Edge::Cli,
            deadline: None,
            wait: Default::default(),
            trace: None,
            idempotency_key: None,
        };
        assert!(matches!(call(&HushRedactor, &asked), Cow::Borrowed(_)));
        (asked.tool, asked.idempotency_key) = ("hush".into(), Some("hush".into()));
        asked.arguments = Payload::json(r#"{"a":"hush"}"#);
        let shown = call(&HushRedactor, &asked).into_owned();
        assert_eq!((shown.tool.as_str(), shown.idempotency_key.as_deref()), ("[x]", Some("[x]")));
        assert_eq!(&shown.arguments.bytes()[..], br#"{"a":"[x]"}"#);
    }
}
