//! Gate: what a tool says while it runs is held to the same rule as its result: no secret in it.

use crate::gates::redact::{hide, hide_in_payload};
use toolyard_protocol::{Ask, AskFuture, Caller, LogLine, Progress, Question, Redactor};

/// The caller as a tool reaches it. Answers go to the tool as they are: they are the caller's own words.
pub struct Discreet<'a> {
    pub caller: &'a dyn Caller,
    pub redactor: &'a dyn Redactor,
}

impl Caller for Discreet<'_> {
    fn progress(&self, mut progress: Progress) {
        progress.message.iter_mut().for_each(|message| hide(self.redactor, message));
        if self.is_secret(progress.done) {
            progress.done = 0.0;
        }
        progress.total = progress.total.filter(|total| !self.is_secret(*total));
        self.caller.progress(progress);
    }

    fn log(&self, mut line: LogLine) {
        line.logger.iter_mut().for_each(|logger| hide(self.redactor, logger));
        hide_in_payload(self.redactor, &mut line.data);
        self.caller.log(line);
    }

    fn ask(&self, mut question: Question) -> AskFuture<'_> {
        hide(self.redactor, &mut question.key);
        match &mut question.body {
            Ask::Elicit(body) | Ask::ElicitUrl(body) | Ask::Sample(body) => {
                hide_in_payload(self.redactor, body);
            }
            Ask::Roots => {}
        }
        self.caller.ask(question)
    }

    fn close_stream(&self, retry_ms: Option<u64>) {
        self.caller.close_stream(retry_ms.filter(|ms| !self.is_secret(ms)));
    }

    fn detach(&self) {
        self.caller.detach();
    }
}

impl Discreet<'_> {
    /// A number can be a secret too.
    fn is_secret(&self, number: impl ToString) -> bool {
        self.redactor.text(&number.to_string()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::redact::tests::Hush;
    use std::sync::Mutex;
    use toolyard_protocol::{Answer, LogLevel, Payload};

    /// Writes down everything it hears.
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Heard {
        fn add(&self, what: impl std::fmt::Debug) {
            self.0.lock().unwrap().push(format!("{what:?}"));
        }
    }

    impl Caller for Heard {
        fn progress(&self, progress: Progress) {
            self.add(progress);
        }

        fn log(&self, line: LogLine) {
            self.add(line);
        }

        fn ask(&self, question: Question) -> AskFuture<'_> {
            self.add(question);
            Box::pin(std::future::ready(Ok(Answer(Payload::json(r#""hush""#)))))
        }

        fn close_stream(&self, retry_ms: Option<u64>) {
            self.add(retry_ms);
        }
    }

    /// Hides the word `hush` and the number 1234.
    struct Numbers;

    impl Redactor for Numbers {
        fn text(&self, text: &str) -> Option<String> {
            text.contains("1234").then(|| "[x]".to_owned()).or_else(|| Hush.text(text))
        }

        fn payload(&self, payload: &Payload) -> Option<Payload> {
            Hush.payload(payload)
        }
    }

    #[tokio::test]
    async fn nothing_a_tool_says_holds_a_secret_and_answers_stay_whole() {
        let heard = Heard::default();
        let caller = Discreet { caller: &heard, redactor: &Numbers };
        let body = || Payload::json(r#"{"message":"hush"}"#);
        caller.progress(Progress { done: 1234.0, total: Some(1234.0), message: Some("a hush b".into()) });
        caller.log(LogLine { level: LogLevel::Info, logger: Some("hush".into()), data: body() });
        caller.close_stream(Some(1234));
        let bodies = [Ask::Elicit(body()), Ask::ElicitUrl(body()), Ask::Sample(body()), Ask::Roots];
        for body in bodies {
            let answer = caller.ask(Question { key: "hush".into(), body }).await.unwrap();
            assert_eq!(&answer.0.bytes()[..], br#""hush""#);
        }
        let heard = heard.0.into_inner().unwrap();
        assert_eq!(heard.len(), 7);
        assert!(heard.iter().all(|text| !text.contains("hush") && !text.contains("1234")), "{heard:#?}");
        let masked = heard.iter().filter(|text| text.contains("[x]")).count();
        assert_eq!(masked, 6, "the close of a stream has no words: {heard:#?}");
    }
}
