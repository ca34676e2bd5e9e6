//! Gate: progress, log lines and questions of a running tool are redacted like its result.

use crate::gates::redact::{redact_payload, redact_text};
use toolyard_protocol::{
    Caller, Error, InputFuture, InputRequest, InputRequestBody, LogLine, Progress, Redactor,
};

/// The caller that a tool sees. Answers are passed on unchanged: they come from the caller itself.
pub struct RedactingCaller<'a> {
    pub caller: &'a dyn Caller,
    pub redactor: &'a dyn Redactor,
}

impl Caller for RedactingCaller<'_> {
    fn progress(&self, mut progress: Progress) {
        progress.message.iter_mut().for_each(|message| redact_text(self.redactor, message));
        if self.is_secret(progress.done) {
            progress.done = 0.0;
        }
        progress.total = progress.total.filter(|total| !self.is_secret(*total));
        self.caller.progress(progress);
    }

    fn log(&self, mut line: LogLine) {
        line.logger.iter_mut().for_each(|logger| redact_text(self.redactor, logger));
        redact_payload(self.redactor, &mut line.data);
        self.caller.log(line);
    }

    fn request_input(&self, mut question: InputRequest) -> InputFuture<'_> {
        redact_text(self.redactor, &mut question.key);
        match &mut question.body {
            InputRequestBody::Elicit(body)
            | InputRequestBody::ElicitUrl(body)
            | InputRequestBody::Sample(body) => {
                redact_payload(self.redactor, body);
            }
            InputRequestBody::Roots => {}
        }
        self.caller.request_input(question)
    }

    fn close_stream(&self, retry_ms: Option<u64>) {
        self.caller.close_stream(retry_ms.filter(|ms| !self.is_secret(ms)));
    }

    fn begin_work(&self) -> Result<(), Error> {
        self.caller.begin_work()
    }

    fn detach(&self) {
        self.caller.detach();
    }
}

impl RedactingCaller<'_> {
    /// A number can be a secret too.
    fn is_secret(&self, number: impl ToString) -> bool {
        self.redactor.text(&number.to_string()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::redact::tests::HushRedactor;
    use std::sync::Mutex;
    use toolyard_protocol::{InputResponse, LogLevel, Payload};

    /// Records everything it receives.
    #[derive(Default)]
    struct RecordingCaller(Mutex<Vec<String>>);

    impl RecordingCaller {
        fn add(&self, what: impl std::fmt::Debug) {
            self.0.lock().unwrap().push(format!("{what:?}"));
        }
    }

    impl Caller for RecordingCaller {
        fn progress(&self, progress: Progress) {
            self.add(progress);
        }

        fn log(&self, line: LogLine) {
            self.add(line);
        }

        fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
            self.add(question);
            Box::pin(std::future::ready(Ok(InputResponse(Payload::json(r#""hush""#)))))
        }

        fn close_stream(&self, retry_ms: Option<u64>) {
            self.add(retry_ms);
        }
    }

    /// Redacts the word `hush` and the number 1234.
    struct NumberRedactor;

    impl Redactor for NumberRedactor {
        fn text(&self, text: &str) -> Option<String> {
            text.contains("1234").then(|| "[x]".to_owned()).or_else(|| HushRedactor.text(text))
        }

        fn payload(&self, payload: &Payload) -> Option<Payload> {
            HushRedactor.payload(payload)
        }
    }

    #[tokio::test]
    async fn messages_of_a_tool_are_redacted_and_answers_are_not() {
        let recorder = RecordingCaller::default();
        let caller = RedactingCaller { caller: &recorder, redactor: &NumberRedactor };
        let body = || Payload::json(r#"{"message":"hush"}"#);
        caller.progress(Progress { done: 1234.0, total: Some(1234.0), message: Some("a hush b".into()) });
        caller.log(LogLine { level: LogLevel::Info, logger: Some("hush".into()), data: body() });
        caller.close_stream(Some(1234));
        let bodies = [
            InputRequestBody::Elicit(body()),
            InputRequestBody::ElicitUrl(body()),
            InputRequestBody::Sample(body()),
            InputRequestBody::Roots,
        ];
        for body in bodies {
            let answer = caller.request_input(InputRequest { key: "hush".into(), body }).await.unwrap();
            assert_eq!(&answer.0.bytes()[..], br#""hush""#);
        }
        let texts = recorder.0.into_inner().unwrap();
        assert_eq!(texts.len(), 7);
        assert!(texts.iter().all(|text| !text.contains("hush") && !text.contains("1234")), "{texts:#?}");
        let masked = texts.iter().filter(|text| text.contains("[x]")).count();
        assert_eq!(masked, 6, "closing a stream carries no text: {texts:#?}");
    }

    #[test]
    fn messages_without_a_secret_are_passed_on_unchanged() {
        let recorder = RecordingCaller::default();
        let caller = RedactingCaller { caller: &recorder, redactor: &NumberRedactor };
        let progress = Progress { done: 1.0, total: Some(2.0), message: Some("half".into()) };
        caller.progress(progress.clone());
        caller.close_stream(Some(3));
        let expected = [format!("{progress:?}"), format!("{:?}", Some(3))];
        assert_eq!(recorder.0.into_inner().unwrap(), expected);
    }
}
