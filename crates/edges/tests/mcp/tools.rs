//! Tools that do what a test needs: echo, report progress, ask, hang.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use toolyard_engine::{Candidate, Entry, Run, RunFuture, Runner, ToolLimiter};
use toolyard_formats::schema::Schema;
use toolyard_protocol::{
    About, Annotations, Behavior, Caller, Digest, Error, ErrorKind, ExposedName, InputRequest,
    InputRequestBody, Limits, LogLevel, LogLine, Outcome, Payload, Progress, Sandbox, Timing, ToolName,
    ToolSpec,
};

/// How often the hanging tool was started, and how often it was stopped.
#[derive(Default)]
pub struct Counts {
    pub started: AtomicUsize,
    pub stopped: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Kind {
    Echo,
    Steps,
    AskName,
    AskTwo,
    AskTwice,
    Sample,
    Hang,
    Leave,
    Fail,
    Number,
    /// Asks, and writes 300 log lines before the answer can come.
    Burst,
    /// A string of `n` bytes; with `log` a log line comes first, so that the response is a stream.
    Big,
    /// Writes a log line, then sleeps `n` ms.
    Nap,
}

struct Tool(Kind, Arc<Counts>);

pub fn all(counts: &Arc<Counts>) -> Vec<Candidate> {
    use Kind::*;
    let tools = [
        ("echo", Echo, false),
        ("steps", Steps, false),
        ("ask_name", AskName, false),
        ("ask_name_again", AskName, true),
        ("ask_two", AskTwo, false),
        ("ask_twice", AskTwice, true),
        ("sample", Sample, false),
        ("hang", Hang, false),
        ("leave", Leave, false),
        ("fail", Fail, false),
        ("number", Number, false),
        ("burst", Burst, false),
        ("big", Big, false),
        ("nap", Nap, false),
    ];
    tools
        .into_iter()
        .map(|(name, kind, repeatable)| candidate(name, Tool(kind, counts.clone()), repeatable))
        .collect()
}

fn candidate(name: &str, tool: Tool, repeatable: bool) -> Candidate {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}}).to_string();
    let spec = ToolSpec {
        name: ToolName::parse(&format!("test.{name}")).unwrap(),
        exposed: ExposedName::parse(name).unwrap(),
        kind: "test",
        source: "test".into(),
        about: About {
            title: Some(name.to_uppercase()),
            description: Some("A test tool".into()),
            ..About::default()
        },
        annotations: Annotations { idempotent: repeatable.then_some(true), ..Annotations::default() },
        timing: Timing::Sync,
        limits: Limits { timeout: Duration::from_secs(60), input: 1 << 20, output: 1 << 20 },
        behavior: Behavior::default(),
        sandbox: Sandbox::NotNeeded,
        permissions: Default::default(),
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: Some(Payload::json(schema.clone())),
        output_schema: None,
    };
    let entry = Entry {
        limiter: Arc::new(ToolLimiter::new(&spec.behavior)),
        spec,
        runner: Box::new(tool),
        input: Some(Box::new(Schema::compile(schema.as_bytes()).unwrap())),
        output: None,
        cache_key: None,
    };
    Candidate { entry: Arc::new(entry), enabled: true }
}

impl Runner for Tool {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move { self.work(run).await })
    }
}

impl Tool {
    async fn work(&self, run: Run<'_>) -> Result<Outcome, Error> {
        let success = |value: Value| Ok(Outcome::success(Some(Payload::json(value.to_string()))));
        match self.0 {
            Kind::Echo => Ok(Outcome::success(Some(run.call.arguments.clone()))),
            Kind::Number => Ok(Outcome::success(Some(Payload::json("12345678901234567890")))),
            Kind::Fail => Err(Error::new(ErrorKind::ToolFailed, "it broke").hint("fix it")),
            Kind::Steps => {
                for done in [0.0, 50.0, 50.0, 100.0] {
                    run.caller.progress(Progress { done, total: None, message: Some(format!("at {done}")) });
                    let data = Payload::json(json!(format!("step {done}")).to_string());
                    run.caller.log(LogLine { level: LogLevel::Info, logger: None, data });
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                success(json!({"done": true}))
            }
            Kind::Burst => {
                let logs = async {
                    for n in 0..300 {
                        let data = Payload::json(json!(format!("line {n}")).to_string());
                        run.caller.log(LogLine { level: LogLevel::Info, logger: None, data });
                    }
                };
                let (answer, ()) = tokio::join!(elicit(run.caller, "name"), logs);
                success(json!({"hello": answer?["content"]["name"]}))
            }
            Kind::Nap => {
                let arguments: Value = serde_json::from_slice(run.call.arguments.bytes()).unwrap();
                run.caller.log(LogLine { level: LogLevel::Info, logger: None, data: Payload::json("1") });
                tokio::time::sleep(Duration::from_millis(arguments["n"].as_u64().unwrap())).await;
                success(json!({"slept": arguments["n"]}))
            }
            Kind::Big => {
                let arguments: Value = serde_json::from_slice(run.call.arguments.bytes()).unwrap();
                if arguments["log"] == true {
                    let data = Payload::json("\"working\"");
                    run.caller.log(LogLine { level: LogLevel::Info, logger: None, data });
                }
                success(json!("x".repeat(arguments["n"].as_u64().unwrap() as usize)))
            }
            Kind::AskName => {
                let answer = elicit(run.caller, "name").await?;
                success(json!({"hello": answer["content"]["name"], "action": answer["action"]}))
            }
            Kind::AskTwo => {
                let (first, second) = tokio::join!(elicit(run.caller, "first"), elicit(run.caller, "second"));
                success(json!([first?["content"]["name"], second?["content"]["name"]]))
            }
            Kind::AskTwice => {
                let first = elicit(run.caller, "first").await?;
                let second = elicit(run.caller, "second").await?;
                success(json!([first["content"]["name"], second["content"]["name"]]))
            }
            Kind::Sample => {
                let params = json!({"messages": [], "maxTokens": 5}).to_string();
                let body = InputRequestBody::Sample(Payload::json(params));
                let answer = run.caller.request_input(InputRequest { key: "sample".into(), body }).await?;
                Ok(Outcome::success(Some(answer.0)))
            }
            Kind::Hang => {
                struct Stopped<'a>(&'a Counts);
                impl Drop for Stopped<'_> {
                    fn drop(&mut self) {
                        self.0.stopped.fetch_add(1, Ordering::SeqCst);
                    }
                }
                let _stopped = Stopped(&self.1);
                self.1.started.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
            Kind::Leave => {
                run.caller.close_stream(Some(10));
                tokio::time::sleep(Duration::from_millis(200)).await;
                success(json!({"back": true}))
            }
        }
    }
}

async fn elicit(caller: &dyn Caller, key: &str) -> Result<Value, Error> {
    let params = json!({"message": key, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
    let body = InputRequestBody::Elicit(Payload::json(params.to_string()));
    let answer = caller.request_input(InputRequest { key: key.into(), body }).await?;
    Ok(serde_json::from_slice(answer.0.bytes()).unwrap())
}
