//! A yard with an engine, and a caller that records messages and sends prepared replies.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::LazyJobs;
use toolyard_engine::{Engine, Registry};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::{
    Call, Caller, Edge, Error, ErrorKind, InputFuture, InputRequest, InputRequestBody, InputResponse, Limits,
    LogLine, Outcome, Payload, Progress,
};
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::sqlite::open_cache;
use toolyard_yard::{Defaults, Loader, SandboxPolicy};

/// Long enough that only a hang reaches it, also on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The dialog protocol, with the Python standard library only.
const PRELUDE: &str = r#"
import json, os, sys, time
arguments = json.loads(sys.stdin.readline())
def say(**message): print(json.dumps({"$toolyard": message}), flush=True)
def heard(): return json.loads(sys.stdin.readline())["$toolyard"]["answer"]
def elicit(id, message="?"): say(ask={"id": id, "elicit": {"message": message, "schema": {"type": "object"}}})
def answer(value): print(json.dumps(value), flush=True)
"#;

pub struct Yard {
    root: PathBuf,
    engine: Arc<Engine>,
    loader: Loader,
}

impl Yard {
    pub fn new() -> Yard {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolyard-dialog-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        let state = root.join(".toolyard");
        for dir in [&state, &root.join("tools")] {
            fs::create_dir_all(dir).unwrap();
        }
        let environment = [("PATH", "/usr/bin:/bin"), ("TOOLYARD_SECRET_MY_KEY", SECRET)];
        let host = Arc::new(Host::new(environment.map(|(name, value)| (name.into(), value.into()))));
        let limits = Limits { timeout: TIMEOUT, input: 4 << 20, output: 256 << 10 };
        let defaults = Defaults { pack: limits, manifest: limits };
        let launcher = Arc::new(Launcher::new(&state).unwrap());
        let loader =
            Loader::new(root.clone(), state.clone(), host, launcher, defaults, SandboxPolicy::default());
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let audit =
            FileAuditLog::open(&state, Options::default(), clock.clone(), random.clone(), Arc::new(View));
        let cache = open_cache(&state, Default::default(), clock.clone());
        let redactor = loader.secrets.clone();
        let registry = Arc::new(Registry::default());
        let (audit, jobs) = (audit.unwrap(), LazyJobs::unavailable());
        let engine = Arc::new(Engine {
            registry,
            rate_limits: toolyard_engine::Lazy::unavailable(),
            audit,
            cache,
            redactor,
            jobs,
            call_limit: toolyard_engine::CallLimit::default(),
            clock,
            random,
        });
        Yard { root, engine, loader }
    }

    pub fn file(&self, path: &str, text: &str) -> &Yard {
        fs::write(self.root.join(path), text).unwrap();
        self
    }

    /// A Python program that is one tool in each file format: `pack` and `manifest`.
    pub fn python(&self, script: &str) -> &Yard {
        self.python_with(script, "", "")
    }

    /// The same with more fields: YAML for the pack, JSON members (with a trailing comma) for the manifest.
    pub fn python_with(&self, script: &str, pack: &str, manifest: &str) -> &Yard {
        self.file("tools/tool.py", &format!("{PRELUDE}{script}"));
        self.file(
            "tools/pack.tool.yaml",
            &format!("id: pack\nkind: cli\nentry: [/usr/bin/python3, tools/tool.py]\ndialog: true\n{pack}"),
        );
        fs::create_dir_all(self.root.join("tools/manifest")).unwrap();
        let entry = r#""entry": {"command": "/usr/bin/python3", "args": ["tools/tool.py"]}"#;
        self.file(
            "tools/manifest/tool.json",
            &format!(r#"{{"id": "manifest", "runtime": "process", {manifest} {entry}, "dialog": true}}"#),
        );
        self.load();
        self
    }

    /// Loads the yard and returns its problems.
    pub fn load(&self) -> Vec<String> {
        let snapshot = self.loader.load().into_snapshot();
        let problems = snapshot.problems().iter().map(|problem| problem.message.clone()).collect();
        self.engine.registry.replace(snapshot);
        problems
    }

    pub async fn call(&self, tool: &str, caller: &dyn Caller) -> Outcome {
        self.call_with(tool, "{}", None, caller).await
    }

    pub async fn call_with(
        &self,
        tool: &str,
        arguments: &str,
        within: Option<Duration>,
        caller: &dyn Caller,
    ) -> Outcome {
        let arguments = Payload::json(arguments.to_owned());
        let deadline = within.map(|limit| Instant::now() + limit);
        let call = Call { deadline, ..Call::new(self.engine.call_id(), tool, arguments, Edge::Cli) };
        tokio::time::timeout(TIMEOUT, self.engine.run(call, caller)).await.expect("the call ends")
    }

    /// Processes whose working directory is this yard.
    pub fn processes(&self) -> usize {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == self.root))
            .count()
    }

    pub async fn assert_all_dead(&self) {
        let started = Instant::now();
        while self.processes() > 0 {
            assert!(started.elapsed() < Duration::from_secs(5), "a process of the tool is still alive");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub const SECRET: &str = "planted-secret-value-7310";

/// Records messages as text.
#[derive(Default)]
pub struct Recorder {
    recorded: Mutex<Vec<String>>,
    replies: Vec<(&'static str, Reply)>,
}

/// The reply to a question.
pub enum Reply {
    After(Duration, &'static str),
    Refuse(&'static str),
    Never,
}

impl Recorder {
    pub fn new(replies: impl Into<Vec<(&'static str, Reply)>>) -> Recorder {
        Recorder { recorded: Mutex::default(), replies: replies.into() }
    }

    pub fn recorded(&self) -> Vec<String> {
        self.recorded.lock().unwrap().clone()
    }

    fn add(&self, text: String) {
        self.recorded.lock().unwrap().push(text);
    }
}

impl Caller for Recorder {
    fn progress(&self, Progress { done, total, message }: Progress) {
        let total = total.map_or(String::new(), |total| format!("/{total}"));
        self.add(format!("progress {done}{total} {}", message.unwrap_or_default()).trim_end().to_owned());
    }

    fn log(&self, LogLine { level, logger, data }: LogLine) {
        let data = String::from_utf8_lossy(data.bytes()).into_owned();
        self.add(format!("{} {} {data}", level.as_str(), logger.unwrap_or_default()));
    }

    fn request_input(&self, question: InputRequest) -> InputFuture<'_> {
        let body = match &question.body {
            InputRequestBody::Elicit(body) => format!("elicit {}", text(body)),
            InputRequestBody::ElicitUrl(body) => format!("elicit_url {}", text(body)),
            InputRequestBody::Sample(body) => format!("sample {}", text(body)),
            InputRequestBody::Roots => "roots".to_owned(),
        };
        self.add(format!("ask {} {body}", question.key));
        let reply = self.replies.iter().find(|(key, _)| *key == question.key || *key == "*");
        Box::pin(async move {
            match reply {
                Some((_, Reply::After(pause, json))) => {
                    tokio::time::sleep(*pause).await;
                    Ok(InputResponse(Payload::json(*json)))
                }
                Some((_, Reply::Refuse(why))) => Err(Error::new(ErrorKind::Forbidden, *why)),
                Some((_, Reply::Never)) => std::future::pending().await,
                None => panic!("unexpected question {question:?}"),
            }
        })
    }

    fn close_stream(&self, retry_ms: Option<u64>) {
        self.add(format!("close {retry_ms:?}"));
    }

    fn detach(&self) {
        self.add("detach".to_owned());
    }
}

pub fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(payload.bytes()).into_owned()
}

pub fn now(json: &'static str) -> Reply {
    Reply::After(Duration::ZERO, json)
}

/// What the tool answered.
#[track_caller]
pub fn data(outcome: &Outcome) -> String {
    match (outcome.error(), outcome.data()) {
        (None, Some(data)) => text(data),
        other => panic!("no result: {other:?}"),
    }
}

#[track_caller]
pub fn error(outcome: &Outcome) -> &Error {
    outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"))
}
