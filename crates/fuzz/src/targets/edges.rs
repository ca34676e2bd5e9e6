//! The edges: HTTP from the first byte, lines and frames over a stream, all with an engine that has one tool.

use super::{Target, target};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use toolyard_edges::{
    Auth, InProcess, Mcp, McpOptions, Options, Services, TokenPolicy, serve_framed, serve_stdio,
};
use toolyard_engine::cache::Options as CacheOptions;
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::LazyJobs;
use toolyard_engine::{Candidate, Engine, Entry, Registry, Run, RunFuture, Runner, Snapshot, ToolLimiter};
use toolyard_formats::redact::by_name::View;
use toolyard_formats::schema::Schema;
use toolyard_protocol::{
    About, Annotations, Behavior, Digest, ExposedName, Limits, NoopRedactor, Outcome, Payload, Sandbox,
    Timing, ToolName, ToolSpec,
};
use toolyard_store::audit::{FileAuditLog, Options as AuditOptions};
use toolyard_store::sqlite::open_cache;

/// A stream that never ends is dropped after this time, which is not a finding.
const STREAM_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_BODY: usize = 16 * 1024;

pub fn targets(folder: &Path) -> Result<Vec<Target>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = Rc::new(runtime.map_err(|error| error.to_string())?);
    let engine = engine(&folder.join("edges"))?;
    let mut options = McpOptions::new([3; 32]);
    options.max_sessions = 100;
    options.max_parked = 100;
    let mcp = Mcp::new(engine.clone(), Services::default(), options);
    let bounds = Options {
        max_body: MAX_BODY,
        max_connections: 10,
        max_connections_per_peer: 10,
        max_header: 64 * 1024,
        max_headers: 100,
        header_timeout: Duration::from_secs(1),
        stalled: Duration::from_secs(1),
        ping: Duration::from_secs(1),
        drain: Duration::from_secs(1),
        auth: Auth { policy: TokenPolicy::Guarded, token: "secret".to_owned() },
    };
    let http = Rc::new(InProcess::new(engine, mcp.clone(), bounds));
    let (in_lines, in_frames) = (mcp.clone(), mcp);
    Ok(vec![
        target(
            "http",
            over_stream(runtime.clone(), move |stream| {
                let http = http.clone();
                async move { http.serve(stream).await }
            }),
        ),
        target(
            "lines",
            over_stream(runtime.clone(), move |stream| {
                let (input, output) = tokio::io::split(stream);
                serve_stdio(in_lines.clone(), input, output, MAX_BODY, std::future::pending())
            }),
        ),
        target(
            "frames",
            over_stream(runtime.clone(), move |stream| {
                let (input, output) = tokio::io::split(stream);
                serve_framed(in_frames.clone(), input, output, MAX_BODY, std::future::pending())
            }),
        ),
    ])
}

/// Sends the input, closes the sending side, and reads the response.
fn over_stream<F: Future<Output = ()>>(
    runtime: Rc<Runtime>,
    serve: impl Fn(DuplexStream) -> F,
) -> impl Fn(&[u8]) -> u64 {
    move |input| {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (mut read, mut write) = tokio::io::split(ours);
        let exchange = async {
            // Fails when the server closes the connection early.
            let _ = write.write_all(input).await;
            let _ = write.shutdown().await;
            let mut answer = Vec::new();
            let _ = (&mut read).take(1 << 20).read_to_end(&mut answer).await;
            codes_in(&String::from_utf8_lossy(&answer))
        };
        runtime.block_on(async {
            let served = serve(theirs);
            let both = async { tokio::join!(served, exchange).1 };
            tokio::time::timeout(STREAM_TIMEOUT, both).await.unwrap_or(1)
        })
    }
}

/// Hash of the statuses, codes, hints and messages of an answer.
fn codes_in(answer: &str) -> u64 {
    let mut state = DefaultHasher::new();
    for prefix in ["HTTP/1.1 ", "\"code\":", "\"hint\":\"", "\"message\":\""] {
        for (at, _) in answer.match_indices(prefix).take(8) {
            let rest = answer[at + prefix.len()..].chars().take(12);
            rest.take_while(|sign| !matches!(sign, ',' | '\'')).collect::<String>().hash(&mut state);
        }
    }
    state.finish()
}

fn engine(folder: &Path) -> Result<Arc<Engine>, String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let audit =
        FileAuditLog::open(folder, AuditOptions::default(), clock.clone(), random.clone(), Arc::new(View));
    let audit = audit.map_err(|error| error.to_string())?;
    let cache = open_cache(folder, CacheOptions::default(), clock.clone());
    let registry = Arc::new(Registry::new(Snapshot::build(vec![echo()?], Vec::new())));
    let (jobs, redactor) = (LazyJobs::unavailable(), Arc::new(NoopRedactor));
    Ok(Arc::new(Engine {
        registry,
        rate_limits: toolyard_engine::Lazy::unavailable(),
        audit,
        cache,
        redactor,
        jobs,
        call_limit: toolyard_engine::CallLimit::new(100),
        clock,
        random,
    }))
}

struct Echo;

impl Runner for Echo {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move { Ok(Outcome::success(Some(run.call.arguments.clone()))) })
    }
}

fn echo() -> Result<Candidate, String> {
    const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let spec = ToolSpec {
        name: ToolName::parse("test.echo").map_err(|error| error.to_string())?,
        exposed: ExposedName::parse("echo").map_err(|error| error.to_string())?,
        kind: "test",
        source: "test".to_owned(),
        about: About::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        limits: Limits { timeout: Duration::from_secs(5), input: 1 << 20, output: 1 << 20 },
        behavior: Behavior::default(),
        sandbox: Sandbox::NotNeeded,
        permissions: Default::default(),
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: Some(Payload::json(SCHEMA)),
        output_schema: None,
    };
    let schema = Schema::compile(SCHEMA.as_bytes()).map_err(|_| "invalid schema of echo".to_owned())?;
    let entry = Entry {
        limiter: Arc::new(ToolLimiter::new(&spec.behavior)),
        spec,
        runner: Box::new(Echo),
        input: Some(Box::new(schema)),
        output: None,
        cache_key: None,
    };
    Ok(Candidate { entry: Arc::new(entry), enabled: true })
}
