//! Tools that misuse the dialogue: each call ends with a clear error, and no process is left.

use crate::support::{Recorder, Reply, TIMEOUT, Yard, error, now};
use std::time::{Duration, Instant};
use toolyard_protocol::{Error, ErrorKind};

/// Runs the script and returns its error; no process may be left.
async fn failure(script: &str, caller: &Recorder) -> Error {
    let yard = Yard::new();
    yard.python(script);
    let outcome = yard.call("pack", caller).await;
    yard.assert_all_dead().await;
    error(&outcome).clone()
}

#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, what: &str) {
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(what), "{error:?} has no {what:?}");
    assert!(error.hint.is_some(), "{error:?}");
}

#[tokio::test]
async fn a_flood_of_messages_ends_the_call() {
    let caller = Recorder::default();
    let script = "while True: say(log={'message': 'x'})";
    assert_says(&failure(script, &caller).await, ErrorKind::OutputTooLarge, "more than 10000 messages");
    assert_eq!(caller.recorded().len(), 10_000);
    let script = "while True: say(log={'message': 'x' * 500000})";
    let caller = Recorder::default();
    assert_says(&failure(script, &caller).await, ErrorKind::OutputTooLarge, "16777216 bytes of messages");
    assert_eq!(caller.recorded().len(), 33);
}

#[tokio::test]
async fn too_many_questions_at_once_end_the_call() {
    let caller = Recorder::new([("*", Reply::Never)]);
    let script = "for i in range(65): elicit(f'q{i}')\ntime.sleep(100)";
    assert_says(&failure(script, &caller).await, ErrorKind::OutputTooLarge, "more than 64 questions");
    assert_eq!(caller.recorded().len(), 64);
}

#[tokio::test]
async fn a_question_that_is_open_cannot_be_asked_again() {
    let caller = Recorder::new([("*", Reply::Never)]);
    let script = "elicit('same'); elicit('same'); time.sleep(100)";
    assert_says(&failure(script, &caller).await, ErrorKind::InvalidOutput, "'same' again while");
}

#[tokio::test]
async fn a_tool_that_never_reads_its_answers_is_stopped_and_never_holds_up_the_reader() {
    let long: &'static str = Box::leak(format!("\"{}\"", "x".repeat(300_000)).into_boxed_str());
    let caller = Recorder::new([("*", now(long))]);
    let script = "for i in range(50): elicit(f'q{i}'); time.sleep(.02)\ntime.sleep(100)";
    let error = failure(script, &caller).await;
    assert_says(&error, ErrorKind::ToolFailed, "does not read the answers");
}

#[tokio::test]
async fn a_tool_that_closed_its_stdin_gets_no_second_question() {
    let caller = Recorder::new([("*", now("1"))]);
    let script = "os.close(0)\nfor i in range(100): elicit(f'q{i}'); time.sleep(.05)";
    assert_says(&failure(script, &caller).await, ErrorKind::ToolFailed, "has closed its stdin");
}

#[tokio::test]
async fn a_tool_that_closed_its_stdin_may_still_answer() {
    let yard = Yard::new();
    yard.python("os.close(0); elicit('q'); time.sleep(.3); answer(5)");
    let outcome = yard.call("pack", &Recorder::new([("*", now("1"))])).await;
    assert_eq!(crate::support::data(&outcome), "5");
}

#[tokio::test]
async fn messages_that_do_not_exist_are_named() {
    let caller = Recorder::default();
    for (script, what) in [
        ("say(notify={'a': 1})", "unknown type 'notify'"),
        ("say(progress={'percent': 'half'})", "'percent' that is not a number"),
        ("print('{\"$toolyard\": {\"log\": ', flush=True)", "is not JSON"),
        ("say(answer={'id': 1})", "unknown type 'answer'"),
    ] {
        let error = failure(&format!("{script}\ntime.sleep(100)"), &caller).await;
        assert_says(&error, ErrorKind::InvalidOutput, what);
        assert!(error.message.contains("$toolyard"), "the line is named: {error}");
    }
    assert_eq!(caller.recorded(), Vec::<String>::new());
}

#[tokio::test]
async fn half_a_line_and_silence_end_at_the_timeout() {
    let yard = Yard::new();
    let script =
        "os.fork(); sys.stdout.write('{\"$toolyard\": {\"progress\"'); sys.stdout.flush(); time.sleep(300)";
    yard.python_with(script, "timeoutMs: 1500\n", "");
    let started = Instant::now();
    let outcome = yard.call("pack", &Recorder::default()).await;
    assert_says(error(&outcome), ErrorKind::Timeout, "its limit is 1500 ms");
    assert!(started.elapsed() < TIMEOUT / 4);
    yard.assert_all_dead().await;
}

#[tokio::test]
async fn lines_and_answers_over_the_limit_end_the_call() {
    let caller = Recorder::default();
    for script in [
        // One answer over the limit, one line without an end, and noise that adds up.
        "answer('x' * 300000)",
        "while True: sys.stdout.write('x' * 10000)",
        "while True: print('x' * 10000)",
    ] {
        let error = failure(script, &caller).await;
        assert_says(&error, ErrorKind::OutputTooLarge, "more than 262144 bytes");
    }
    // A message may be longer than that.
    let script = "say(log={'message': 'x' * 300000})\nelicit('q'); heard(); sys.exit(9)";
    let caller = Recorder::new([("q", now("1"))]);
    assert!(failure(script, &caller).await.message.contains("exit status 9"));
    assert_eq!(caller.recorded().len(), 2);
}

#[tokio::test]
async fn a_second_answer_a_late_message_and_no_answer_are_refused() {
    let caller = Recorder::default();
    for (script, what) in [
        ("answer(1); answer(2); time.sleep(100)", "text after"),
        ("answer(1); say(progress={'percent': 1}); time.sleep(100)", "text after"),
        ("print('just words')", "not JSON"),
        ("", "printed nothing"),
        ("say(progress={'percent': 1})", "printed nothing"),
    ] {
        let error = failure(script, &caller).await;
        assert_says(&error, ErrorKind::InvalidOutput, what);
    }
    let error = failure("answer(1); sys.stderr.write('no'); sys.exit(2)", &caller).await;
    assert!(error.message.contains("exit status 2"), "{error}");
}

#[tokio::test]
async fn a_cancelled_call_withdraws_its_question_and_kills_the_tree() {
    let yard = Yard::new();
    yard.python("os.fork(); elicit(f'q{os.getpid()}'); time.sleep(300)");
    let caller = Recorder::new([("*", Reply::Never)]);
    let call = yard.call("pack", &caller);
    let asked = async {
        while caller.recorded().is_empty() || yard.processes() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        outcome = call => panic!("{outcome:?}"),
        () = asked => {}
    }
    yard.assert_all_dead().await;
}

#[tokio::test]
async fn an_answer_ends_the_conversation_even_if_questions_are_open() {
    let yard = Yard::new();
    yard.python("elicit('q'); answer(1); assert sys.stdin.readline() == ''");
    let caller = Recorder::new([("q", Reply::Never)]);
    assert_eq!(crate::support::data(&yard.call("pack", &caller).await), "1");
    yard.assert_all_dead().await;
}
