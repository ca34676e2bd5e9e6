//! Every kind of message, from tools of both file formats.

use crate::support::{Recorder, Reply, SECRET, TIMEOUT, Yard, data, error, now, text};
use std::time::{Duration, Instant};
use toolyard_protocol::{ErrorKind, NoopCaller};

const BOTH: [&str; 2] = ["pack", "manifest"];

#[tokio::test]
async fn progress_and_log_lines_reach_the_caller_in_order() {
    let yard = Yard::new();
    yard.python(
        r#"
say(progress={"percent": 10, "message": "start"})
say(log={"level": "warning", "message": "careful", "logger": "db"})
print("plain words", flush=True)
say(log={"level": "debug", "data": {"rows": [1, 2]}})
say(progress={"done": 2, "total": 3})
say(close_stream={"retry_ms": 500})
say(detach={})
answer({"rows": 3})
"#,
    );
    for tool in BOTH {
        let caller = Recorder::default();
        let outcome = yard.call(tool, &caller).await;
        assert_eq!(data(&outcome), r#"{"rows": 3}"#);
        assert_eq!(
            caller.recorded(),
            [
                "progress 10/100 start",
                r#"warning db "careful""#,
                r#"debug stdout "plain words""#,
                r#"debug  {"rows": [1, 2]}"#,
                "progress 2/3",
                "close Some(500)",
                "detach",
            ]
        );
    }
}

#[tokio::test]
async fn the_request_keeps_its_contract_and_so_does_the_answer() {
    let yard = Yard::new();
    yard.python("answer({'data': arguments})");
    let arguments = "{\"a\":\n[1,\r\n2]}";
    let pack = yard.call_with("pack", arguments, None, &NoopCaller).await;
    assert_eq!(data(&pack), r#"{"a": [1, 2]}"#);
    let manifest = yard.call_with("manifest", arguments, None, &NoopCaller).await;
    assert_eq!(data(&manifest), r#"{"data": {"arguments": {"a": [1, 2]}}}"#);
    yard.python("answer({'error': {'code': 'EINVAL', 'message': 'no such city'}})");
    assert_eq!(error(&yard.call("pack", &NoopCaller).await).kind, ErrorKind::InvalidInput);
    yard.python("answer({'content': [{'type': 'text', 'text': 'hi'}], 'structuredContent': {'n': 1}})");
    for tool in BOTH {
        let outcome = yard.call(tool, &NoopCaller).await;
        assert_eq!(data(&outcome), r#"{"n": 1}"#);
        assert_eq!(text(outcome.content().unwrap()), r#"[{"type": "text", "text": "hi"}]"#);
    }
}

#[tokio::test]
async fn each_kind_of_question_is_asked_and_its_answer_arrives() {
    let yard = Yard::new();
    yard.python(
        r#"
got = []
for question in [{"id": "form", "elicit": {"message": "Name?", "schema": {"type": "object"}}},
                 {"id": "page", "elicit_url": {"message": "Log in", "url": "https://example.com"}},
                 {"id": "model", "sample": {"maxTokens": 5}},
                 {"id": 4, "roots": {}}]:
    say(ask=question)
    got.append(heard())
answer(got)
"#,
    );
    for tool in BOTH {
        let caller = Recorder::new([
            ("form", now("{\"action\":\n\"accept\"}")),
            ("page", now(r#"{"action":"decline"}"#)),
            ("model", Reply::Refuse("no model here")),
            ("4", now(r#"{"roots":[]}"#)),
        ]);
        let outcome = yard.call(tool, &caller).await;
        assert_eq!(
            data(&outcome),
            concat!(
                r#"[{"id": "form", "result": {"action": "accept"}}, {"id": "page", "result": {"action": "decline"}}, "#,
                r#"{"id": "model", "error": {"code": "forbidden", "message": "no model here"}}, "#,
                r#"{"id": 4, "result": {"roots": []}}]"#
            )
        );
        assert_eq!(
            caller.recorded(),
            [
                r#"ask form elicit {"message":"Name?","requestedSchema":{"type": "object"}}"#,
                r#"ask page elicit_url {"message":"Log in","url":"https://example.com"}"#,
                r#"ask model sample {"maxTokens": 5}"#,
                "ask 4 roots",
            ]
        );
    }
}

#[tokio::test]
async fn questions_that_are_open_together_are_answered_as_the_answers_come() {
    let yard = Yard::new();
    yard.python("elicit('slow'); elicit('fast')\nanswer([heard()['id'], heard()['id']])");
    let caller = Recorder::new([("slow", Reply::After(Duration::from_millis(300), "1")), ("fast", now("2"))]);
    assert_eq!(data(&yard.call("pack", &caller).await), r#"["fast", "slow"]"#);
}

#[tokio::test]
async fn a_question_without_anyone_to_ask_fails() {
    let yard = Yard::new();
    yard.python("elicit('q')\nanswer([heard()])");
    let answer = data(&yard.call("pack", &NoopCaller).await);
    assert!(answer.contains(r#""code": "unavailable""#) && answer.contains("cannot answer"), "{answer}");
}

#[tokio::test]
async fn a_tool_may_end_the_call_with_a_json_rpc_error() {
    let yard = Yard::new();
    let fields = "retry: {attempts: 3}\nannotations: {readOnlyHint: true}\n";
    let script = r#"
say(log={"message": "once"})
say(rpc_error={"code": -32042, "message": "log in first", "data": {"url": "https://example.com"}})
sys.stderr.write("bye\n"); sys.exit(3)
"#;
    yard.python_with(script, fields, "");
    let caller = Recorder::default();
    let outcome = yard.call("pack", &caller).await;
    let error = error(&outcome);
    let rpc = error.details.rpc.as_ref().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::ToolFailed, "log in first"));
    assert_eq!(
        (rpc.code, text(rpc.data.as_ref().unwrap())),
        (-32042, r#"{"url": "https://example.com"}"#.into())
    );
    assert_eq!(error.details.stderr.as_deref(), Some("bye"));
    assert_eq!(caller.recorded().len(), 1, "what the tool decided is not tried again");
}

#[tokio::test]
async fn a_flood_of_progress_is_thinned_and_its_last_word_comes_before_the_answer() {
    let yard = Yard::new();
    yard.python("for i in range(2000): say(progress={'done': i, 'total': 1999})\nanswer(1)");
    let caller = Recorder::default();
    let started = Instant::now();
    assert_eq!(data(&yard.call("pack", &caller).await), "1");
    let most = 12 + started.elapsed().as_millis() / 50;
    let heard = caller.recorded();
    assert!((heard.len() as u128) <= most, "{} in {:?}", heard.len(), started.elapsed());
    assert_eq!(heard[0], "progress 0/1999");
    assert_eq!(heard.last().unwrap(), "progress 1999/1999");
}

#[tokio::test]
async fn progress_that_was_held_back_is_delivered_while_the_tool_works_on() {
    let yard = Yard::new();
    // Twenty at once exceed the rate; the last must be delivered before the tool ends.
    yard.python("for i in range(20): say(progress={'done': i})\nelicit('seen')\nheard(); time.sleep(.5)\nelicit('end')\nheard(); answer(1)");
    let caller = Recorder::new([("*", now("1"))]);
    assert_eq!(data(&yard.call("pack", &caller).await), "1");
    let heard = caller.recorded();
    let last = heard.iter().position(|text| text == "progress 19").unwrap();
    let end = heard.iter().position(|text| text.starts_with("ask end")).unwrap();
    assert!(last < end, "{heard:?}");
}

#[tokio::test]
async fn the_tools_clock_stands_while_a_question_waits_but_the_callers_does_not() {
    let yard = Yard::new();
    yard.python_with(
        "elicit('q'); heard(); time.sleep(arguments.get('then', 0)); answer('done')",
        "timeoutMs: 5000\n",
        r#""policy": {"timeout_ms": 5000},"#,
    );
    let slow = Reply::After(Duration::from_secs(6), "1");
    let caller = Recorder::new([("q", slow)]);
    assert_eq!(data(&yard.call("pack", &caller).await), r#""done""#);
    // Time after the answer counts again.
    let caller = Recorder::new([("q", Reply::After(Duration::from_secs(1), "1"))]);
    let outcome = yard.call_with("pack", r#"{"then":100}"#, None, &caller).await;
    assert_eq!(error(&outcome).kind, ErrorKind::Timeout);
    let caller = Recorder::new([("q", Reply::Never)]);
    let started = Instant::now();
    let outcome = yard.call_with("pack", "{}", Some(Duration::from_secs(4)), &caller).await;
    assert_eq!(error(&outcome).kind, ErrorKind::Timeout);
    assert!(error(&outcome).hint.as_ref().unwrap().contains("question"), "{outcome:?}");
    assert!(started.elapsed() < TIMEOUT / 4, "{:?}", started.elapsed());
    yard.assert_all_dead().await;
}

#[tokio::test]
async fn no_secret_reaches_the_caller_by_any_message() {
    let yard = Yard::new();
    let script = r#"
key = os.environ["KEY"]
import base64, urllib.parse
say(progress={"percent": 1, "message": "with " + key})
say(log={"data": {key: [base64.b64encode(key.encode()).decode()]}, "logger": key})
print("noise " + key, flush=True)
print("x" * 990 + key, flush=True)
elicit("id-" + key, key); heard()
say(ask={"id": "page", "elicit_url": {"message": key, "url": "https://h/?k=" + urllib.parse.quote(key)}}); heard()
say(ask={"id": "model", "sample": {"system": key}}); heard()
say(rpc_error={"code": 1, "message": key, "data": [key]})
"#;
    yard.python_with(
        script,
        "secrets: {KEY: \"secret:my_key\"}\n",
        r#""secrets": {"KEY": "secret:my_key"},"#,
    );
    for tool in BOTH {
        let caller = Recorder::new([("*", now("1"))]);
        let outcome = yard.call(tool, &caller).await;
        let all = format!("{:?} {outcome:?}", caller.recorded());
        assert_eq!(caller.recorded().len(), 7, "{all}");
        let forms = ["planted", "cGxhbnRlZC1z", SECRET];
        assert!(forms.iter().all(|form| !all.contains(form)), "{all}");
        assert!(all.contains("[secret my_key]"), "{all}");
        assert_eq!(error(&outcome).message, "[secret my_key]");
        assert_eq!(error(&outcome).details.rpc.as_ref().unwrap().message, "[secret my_key]");
    }
}

#[tokio::test]
async fn a_python_function_talks_through_a_module() {
    let yard = Yard::new();
    yard.file("tools/greet.tool.yaml", "id: greet\nkind: python\nentry: tools.greet:run\ndialog: true\n");
    yard.file(
        "tools/greet.py",
        r#"
import threading, toolyard_dialog as dialog
def run(name="?"):
    dialog.progress(50, "half")
    dialog.progress(done=1, total=2)
    dialog.log({"a": 1}, level="notice", logger="greet")
    print("to stderr")
    answers = {}
    def ask(key):
        try: answers[key] = dialog.ask(sample={"key": key})
        except dialog.Refused as refused: answers[key] = [refused.reason, str(refused)]
    threads = [threading.Thread(target=ask, args=(str(i),)) for i in range(3)]
    [thread.start() for thread in threads]; [thread.join() for thread in threads]
    return {"name": name, "answers": len(answers), "form": dialog.elicit("Sure?", {"type": "object"})}
"#,
    );
    assert_eq!(yard.load(), Vec::<String>::new());
    let caller = Recorder::new([
        ("q1", now("1")),
        ("q2", Reply::Refuse("no")),
        ("q3", Reply::After(Duration::from_millis(50), "3")),
        ("q4", now(r#"{"action":"accept","content":{"sure":true}}"#)),
    ]);
    let outcome = yard.call_with("greet", r#"{"name":"Ann"}"#, None, &caller).await;
    assert_eq!(data(&outcome), r#"{"name": "Ann", "answers": 3, "form": {"sure": true}}"#);
    let heard = caller.recorded();
    assert_eq!(heard[..3], ["progress 50/100 half", "progress 1/2", r#"notice greet {"a": 1}"#]);
    assert_eq!(heard.len(), 7, "{heard:?}");
}

#[tokio::test]
async fn what_cannot_be_a_conversation_is_refused_at_load() {
    let yard = Yard::new();
    yard.python_with("answer(1)", "deterministic: true\n", r#""deterministic": true,"#);
    yard.file("tools/web.tool.yaml", "id: web\nkind: http\nentry: https://example.com/x\ndialog: true\n");
    yard.file("tools/odd.tool.yaml", "id: odd\nkind: cli\nentry: [/bin/true]\ndialog: often\n");
    for (id, rest) in [("quiet", "timing: async_long"), ("quick", "dialog: true")] {
        let pack = format!("id: {id}\nkind: cli\nentry: [/bin/true]\nattached: true\n{rest}\n");
        yard.file(&format!("tools/{id}.tool.yaml"), &pack);
    }
    let problems = yard.load();
    let about = |what: &str| problems.iter().filter(|problem| problem.contains(what)).count();
    assert_eq!(about("'attached' has no effect without"), 2, "{problems:?}");
    assert_eq!(about("'deterministic' and 'dialog' exclude each other"), 2, "{problems:?}");
    assert_eq!(about("'dialog' has no meaning for http"), 1, "{problems:?}");
    assert_eq!(about("'dialog' must be"), 1, "{problems:?}");
}
