//! Golden tests of the dialog messages, and tests of every other kind of line.

use super::*;
use proptest::prelude::*;

fn line(text: &str) -> Result<DialogLine, Error> {
    read(&Bytes::from(text.to_owned()))
}

#[track_caller]
fn message(text: &str) -> Message {
    match line(&format!("{{\"$toolyard\":{text}}}")) {
        Ok(DialogLine::Message(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn question(text: &str) -> (String, InputRequestBody) {
    match message(&format!("{{\"ask\":{text}}}")) {
        Message::InputRequest(DialogRequest { id, question }) => {
            assert!(text.contains(std::str::from_utf8(id.bytes()).unwrap()), "the id is unchanged");
            (question.key, question.body)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn progress_and_log_lines_are_read() {
    let progress = |done, total, message: Option<&str>| {
        Message::Progress(Progress { done, total, message: message.map(str::to_owned) })
    };
    for (text, expected) in [
        (r#"{"percent":40,"message":"half"}"#, progress(40.0, Some(100.0), Some("half"))),
        (r#"{"percent":0.5,"message":null}"#, progress(0.5, Some(100.0), None)),
        (r#"{"done":3,"total":7}"#, progress(3.0, Some(7.0), None)),
        (r#"{"done":3}"#, progress(3.0, None, None)),
    ] {
        assert_eq!(message(&format!(r#"{{"progress":{text}}}"#)), expected);
    }
    let log = |level, logger: Option<&str>, data: &str| {
        let data = Payload::json(data.to_owned());
        Message::Log(LogLine { level, logger: logger.map(str::to_owned), data })
    };
    for (text, expected) in [
        (r#"{"level":"warning","message":"a \"b\""}"#, log(LogLevel::Warning, None, r#""a \"b\"""#)),
        (r#"{"message":"m"}"#, log(LogLevel::Info, None, r#""m""#)),
        (
            r#"{"level":"emergency","data":{"a": [1]},"logger":"db"}"#,
            log(LogLevel::Emergency, Some("db"), r#"{"a": [1]}"#),
        ),
    ] {
        assert_eq!(message(&format!(r#"{{"log":{text}}}"#)), expected);
    }
}

#[test]
fn questions_become_mcp_requests() {
    let json = |text: &str| Payload::json(text.to_owned());
    for (text, key, body) in [
        (
            r#"{"id":"q1","elicit":{"message":"Name?","schema":{"type":"object"}}}"#,
            "q1",
            InputRequestBody::Elicit(json(r#"{"message":"Name?","requestedSchema":{"type":"object"}}"#)),
        ),
        (
            r#"{"id":7,"elicit_url":{"message":"Log in","url":"https://example.com"}}"#,
            "7",
            InputRequestBody::ElicitUrl(json(r#"{"message":"Log in","url":"https://example.com"}"#)),
        ),
        (
            r#"{"id":8,"elicit_url":{"message":"Log in","url":"HTTP://localhost:8/?a=b#c"}}"#,
            "8",
            InputRequestBody::ElicitUrl(json(r#"{"message":"Log in","url":"HTTP://localhost:8/?a=b#c"}"#)),
        ),
        (
            r#"{"sample":{"messages":[],"maxTokens":5},"id":"s"}"#,
            "s",
            InputRequestBody::Sample(json(r#"{"messages":[],"maxTokens":5}"#)),
        ),
        (r#"{"id":"r","roots":{}}"#, "r", InputRequestBody::Roots),
    ] {
        assert_eq!(question(text), (key.to_owned(), body));
    }
}

#[test]
fn the_other_messages_are_read() {
    assert_eq!(message(r#"{"close_stream":{"retry_ms":500}}"#), Message::CloseStream { retry_ms: Some(500) });
    assert_eq!(message(r#"{"close_stream":{}}"#), Message::CloseStream { retry_ms: None });
    assert_eq!(message(r#"{"detach":{}}"#), Message::Detach);
    let rpc = RpcError { code: -32042, message: "no".into(), data: Some(Payload::json(r#"{"a":1}"#)) };
    let text = r#"{"rpc_error":{"code":-32042,"message":"no","data":{"a":1}}}"#;
    assert_eq!(message(text), Message::RpcError(rpc));
}

#[test]
fn messages_results_and_noise_are_distinguished() {
    assert_eq!(line("  \r").unwrap(), DialogLine::Blank);
    for answer in [r#"{"data":{"$toolyard":{}}}"#, "[]", "5", "\"$toolyard\"", "{}", " {\"data\":1}\r"] {
        assert_eq!(line(answer).unwrap(), DialogLine::Answer, "{answer}");
    }
    for noise in ["loading", "{", "{'a':1}", "{\"a\":1,}", "\u{fffd}", "{\"a\":1} {\"a\":2}"] {
        assert_eq!(line(noise).unwrap(), DialogLine::Noise, "{noise}");
    }
    assert_eq!(read(&Bytes::from_static(b"\xff\xfe")).unwrap(), DialogLine::Noise);
}

#[test]
fn an_invalid_message_is_reported_with_its_line() {
    for (text, what) in [
        (r#"{"$toolyard":{"notify":{}}}"#, "unknown type 'notify'; expected progress"),
        (r#"{"$toolyard":{}}"#, "exactly one message"),
        (r#"{"$toolyard":{"log":{"message":"a"},"progress":{"done":1}}}"#, "exactly one message"),
        (r#"{"$toolyard":[]}"#, "must be an object"),
        (r#"{"$toolyard":{"progress":5}}"#, "has 'progress', which must be an object"),
        (r#"{"$toolyard":{"progress":{"percent":1}},"data":1}"#, "other members beside"),
        (r#"{"$toolyard":{"progress":"#, "is not JSON"),
        (r#"{"$toolyard":{"progress":{"percent":101}}}"#, "not from 0 to 100"),
        (r#"{"$toolyard":{"progress":{"percent":"1"}}}"#, "'percent' that is not a number"),
        (r#"{"$toolyard":{"progress":{"percent":1,"done":1}}}"#, "either 'percent'"),
        (r#"{"$toolyard":{"progress":{"done":-1}}}"#, "negative"),
        (r#"{"$toolyard":{"progress":{"total":1}}}"#, "either 'percent'"),
        (r#"{"$toolyard":{"progress":{"done":1,"step":2}}}"#, "'step' in 'progress'"),
        (
            r#"{"$toolyard":{"log":{"level":"loud","message":"a"}}}"#,
            "the unknown level 'loud'; expected one of debug",
        ),
        (r#"{"$toolyard":{"log":{"level":"info"}}}"#, "either 'message' or 'data'"),
        (r#"{"$toolyard":{"ask":{"roots":{}}}}"#, "no 'id'"),
        (r#"{"$toolyard":{"ask":{"id":true,"roots":{}}}}"#, "neither a string nor a whole number"),
        (r#"{"$toolyard":{"ask":{"id":"","roots":{}}}}"#, "empty"),
        (
            r#"{"$toolyard":{"ask":{"id":"a","elicit_url":{"message":"m","url":"javascript:alert(1)"}}}}"#,
            "begins with neither https:// nor http://",
        ),
        (
            r#"{"$toolyard":{"ask":{"id":"a","elicit_url":{"message":"m","url":" https://x"}}}}"#,
            "begins with neither https:// nor http://",
        ),
        (
            r#"{"$toolyard":{"ask":{"id":"a","elicit_url":{"message":"m","url":"file:///etc/passwd"}}}}"#,
            "begins with neither https:// nor http://",
        ),
        (
            r#"{"$toolyard":{"ask":{"id":"a","elicit_url":{"message":"m","url":"https://a\nb"}}}}"#,
            "contains white space or control characters",
        ),
        (r#"{"$toolyard":{"ask":{"id":"a"}}}"#, "one of elicit"),
        (r#"{"$toolyard":{"ask":{"id":"a","roots":{},"sample":{}}}}"#, "one of elicit"),
        (r#"{"$toolyard":{"ask":{"id":"a","shout":{}}}}"#, "asks for 'shout'"),
        (r#"{"$toolyard":{"ask":{"id":"a","roots":{"x":1}}}}"#, "'x' in 'roots'"),
        (r#"{"$toolyard":{"ask":{"id":"a","elicit":{"message":"m"}}}}"#, "'schema'"),
        (r#"{"$toolyard":{"ask":{"id":"a","elicit":{"schema":{}}}}}"#, "no 'message'"),
        (r#"{"$toolyard":{"close_stream":{"retry_ms":-1}}}"#, "'retry_ms'"),
        (r#"{"$toolyard":{"rpc_error":{"message":"m"}}}"#, "no 'code'"),
    ] {
        let error = line(text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::InvalidOutput);
        assert!(error.message.contains(what), "{text}: {error}");
        assert!(error.message.contains("it printed \"{"), "the line is named: {error}");
    }
}

#[test]
fn answers_are_written_in_the_golden_form() {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let given = InputResponse(Payload::json("{\"action\":\n\"accept\"}"));
    assert_eq!(
        text(answer(&Payload::json("\"q\""), Ok(&given))),
        "{\"$toolyard\":{\"answer\":{\"id\":\"q\",\"result\":{\"action\": \"accept\"}}}}\n"
    );
    let error = Error::new(ErrorKind::Unavailable, "no one\nis there");
    assert_eq!(
        text(answer(&Payload::json("7"), Err(&error))),
        "{\"$toolyard\":{\"answer\":{\"id\":7,\"error\":{\"code\":\"unavailable\",\"message\":\"no one\\nis there\"}}}}\n"
    );
}

#[test]
fn a_request_is_one_line_whatever_the_contract() {
    let arguments = Payload::json("{\"a\":\r\n1}");
    assert_eq!(request(Contract::Document, &arguments), "{\"a\":  1}\n");
    assert_eq!(request(Contract::Line, &arguments), "{\"arguments\":{\"a\":  1}}\n");
}

proptest! {
    #[test]
    fn any_line_is_read_or_a_clear_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Err(error) = read(&Bytes::from(bytes)) {
            prop_assert_eq!(error.kind, ErrorKind::InvalidOutput);
        }
    }

    #[test]
    fn any_message_is_read_or_a_clear_error(
        kind in "progress|log|ask|close_stream|detach|rpc_error|answer",
        body in r#"(\{("(id|percent|done|message|level|data|roots|sample|code|retry_ms)":([0-9]{1,3}|"x"|null|\{\}|\[\])){0,1}\}|[0-9]|null)"#,
    ) {
        let text = format!("{{\"$toolyard\":{{\"{kind}\":{body}}}}}");
        match line(&text) {
            Ok(read) => prop_assert!(matches!(read, DialogLine::Message(_)), "{} is {:?}", text, read),
            Err(error) => prop_assert!(error.message.contains("it printed"), "{}", error),
        }
    }

    #[test]
    fn log_and_progress_texts_are_unchanged(text in ".*", done in 0.0..1e9f64) {
        let mut quoted = Vec::new();
        push_json_string(&mut quoted, &text);
        let quoted = String::from_utf8(quoted).unwrap();
        let log = message(&format!("{{\"log\":{{\"message\":{quoted}}}}}"));
        let Message::Log(LogLine { data, .. }) = log else { panic!("{log:?}") };
        prop_assert_eq!(serde_json::from_slice::<String>(data.bytes()).unwrap(), text.clone());
        let progress = message(&format!("{{\"progress\":{{\"done\":{done},\"message\":{quoted}}}}}"));
        prop_assert_eq!(progress, Message::Progress(Progress { done, total: None, message: Some(text) }));
    }

    #[test]
    fn an_answer_is_always_one_line_of_json(text in ".*") {
        let quoted = text_payload(&text);
        let error = Error::new(ErrorKind::Internal, text);
        for line in [answer(&quoted, Ok(&InputResponse(quoted.clone()))), answer(&quoted, Err(&error))] {
            prop_assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            prop_assert!(json::scan(&line).is_ok());
        }
    }
}
