//! The log event at the end of a call: its level and fields, and when there is none.

use crate::call;
use crate::scripted::{Step, setup};
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::{Call, Error, ErrorKind, Outcome, Timing, Violation};
use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| line.trim_start().to_owned()).collect()
    }
}

/// The lines that a run of the tool logs at a level, for a call to the tool or to another.
fn lines(
    level: LevelFilter,
    tool: Option<&str>,
    step: impl Fn() -> Step + Send + Sync + 'static,
) -> Vec<String> {
    lines_and_ms(level, tool, step).0
}

/// The same, and how many milliseconds the call took: as it was recorded, or from the outside if it was cancelled.
fn lines_and_ms(
    level: LevelFilter,
    tool: Option<&str>,
    step: impl Fn() -> Step + Send + Sync + 'static,
) -> (Vec<String>, RangeInclusive<f64>) {
    let lines = Lines::default();
    let writer = lines.clone();
    let format = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time();
    let subscriber = format.with_writer(move || writer.clone()).finish();
    let ms = |duration: Duration| duration.as_micros() as f64 / 1000.0;
    let taken = tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world =
                setup(Timing::Sync).build(move |_| vec![Step::Sleep(Duration::from_millis(20)), step()]);
            let mut call: Call = call("{}");
            call.tool = tool.map_or(call.tool, str::to_owned);
            let (before, limit) = (Instant::now(), Duration::from_millis(200));
            let run = tokio::time::timeout(limit, world.run(call)).await;
            match (run, world.audit.ended.lock().unwrap().first()) {
                (Err(_), _) => {
                    let until_run = world.seen.lock().unwrap()[0].at - before;
                    ms(limit.saturating_sub(until_run))..=ms(before.elapsed())
                }
                (Ok(_), recorded) => {
                    let exact = ms(recorded.map_or(Duration::ZERO, |ended| ended.meta.duration));
                    exact..=exact
                }
            }
        })
    });
    (lines.take(), taken)
}

/// The duration in a line, in milliseconds.
fn ms(line: &str) -> f64 {
    line.split_once(" ms=").unwrap().1.split(' ').next().unwrap().parse().unwrap()
}

fn done() -> Step {
    Step::Return(Box::new(Outcome::success(None)))
}

fn failed(kind: ErrorKind) -> Step {
    let violations = vec![
        Violation { pointer: "/a".into(), message: "is missing".into() },
        Violation { pointer: String::new(), message: "too many".into() },
    ];
    let error = Error::new(kind, "it broke").hint("mend it").with(|details| {
        details.stderr = Some("last words".into());
        details.violations = violations;
    });
    Step::Return(Box::new(Outcome::failure(error)))
}

#[test]
fn a_call_that_ran_is_logged_with_its_outcome_and_duration() {
    let (logged, taken) = lines_and_ms(LevelFilter::INFO, None, done);
    let [line] = &logged[..] else { panic!("{logged:?}") };
    let start =
        "INFO toolyard::call: tool=\"example.echo\" caller=\"local\" edge=\"cli\" outcome=\"success\" ms=";
    assert!(line.starts_with(start) && line.contains(" cached=false call="), "{line}");
    assert!(taken.contains(&ms(line)) && (20.0..200.0).contains(&ms(line)), "{taken:?}: {line}");
}

#[test]
fn a_failed_call_has_its_details_one_level_below() {
    let logged = lines(LevelFilter::INFO, None, || failed(ErrorKind::ToolFailed));
    let [line] = &logged[..] else { panic!("{logged:?}") };
    assert!(line.starts_with("INFO ") && line.contains("outcome=\"tool_failed\""), "{line}");
    assert!(line.contains("error=\"it broke\" call="), "{line}");
    let logged = lines(LevelFilter::DEBUG, None, || failed(ErrorKind::ToolFailed));
    let details = logged.iter().find(|line| line.starts_with("DEBUG ")).unwrap();
    for part in ["hint=\"mend it\"", "stderr=\"last words\"", "violations=\"/a: is missing; too many\""] {
        assert!(details.contains(part), "{details}");
    }
}

#[test]
fn only_faults_of_our_own_are_logged_when_calls_are_not() {
    for (kind, count) in [(None, 0), (Some(ErrorKind::ToolFailed), 0), (Some(ErrorKind::Internal), 1)] {
        let logged = lines(LevelFilter::WARN, None, move || kind.map_or_else(done, failed));
        assert_eq!(logged.len(), count, "{kind:?}: {logged:?}");
        assert!(logged.iter().all(|line| line.starts_with("ERROR ")), "{logged:?}");
    }
}

#[test]
fn a_refused_call_is_a_warning_and_its_name_is_cut() {
    let name = "é".repeat(2000);
    let logged = lines(LevelFilter::WARN, Some(&name), done);
    let [line] = &logged[..] else { panic!("{logged:?}") };
    assert!(line.starts_with(&format!("WARN toolyard::call: tool=\"{}\"", "é".repeat(512))), "{line}");
    assert!(line.contains("refused=\"unknown_tool\" error=\"there is no tool 'éé"), "{line}");
    assert!(line.len() < 3000, "{}", line.len());
    assert_eq!(lines(LevelFilter::ERROR, Some(&name), done), [""; 0]);
}

#[test]
fn a_cancelled_call_is_logged_when_calls_are() {
    let (logged, taken) = lines_and_ms(LevelFilter::INFO, None, || Step::Hang);
    let [line] = &logged[..] else { panic!("{logged:?}") };
    assert!(line.starts_with("INFO ") && line.contains("outcome=\"cancelled\" ms="), "{line}");
    assert!(taken.contains(&ms(line)), "{taken:?}: {line}");
    assert_eq!(lines(LevelFilter::WARN, None, || Step::Hang), [""; 0]);
}
