//! What an MCP call costs, against a bare axum handler that parses the same JSON and answers the same, and what an idle
//! session takes.
//!
//! `cargo bench -p toolyard-edges --bench mcp`; with `-- --check` it fails when a budget is broken. The server runs in
//! this process and the load comes from another, so that the CPU time counted is the server's alone.
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::post;
use axum::serve::ListenerExt;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use toolyard_edges::{Mcp, McpOptions, Options, Services, serve};
use toolyard_engine::audit::{AuditLog, Options as AuditOptions};
use toolyard_engine::cache::{Cache, Options as CacheOptions};
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::JobsDoor;
use toolyard_engine::{Candidate, Controls, Engine, Entry, Registry, Run, RunFuture, Runner, Snapshot};
use toolyard_protocol::{
    About, Annotations, Conduct, Digest, ExposedName, Limits, NothingSecret, Outcome, Payload, Sandbox,
    Timing, ToolName, ToolSpec,
};
use toolyard_wire::schema::Schema;
use toolyard_wire::view::View;

type Failed = Box<dyn Error>;

const CONNECTIONS: usize = 8;
const REQUESTS: usize = 5000;
/// Each figure is the middle one of so many rounds, so that a busy neighbour spoils few of them.
const ROUNDS: usize = 7;
const SESSIONS: usize = 10_000;

const STATELESS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world","count":3},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const IN_SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world","count":3}}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}"#;
const HEADERS: &str = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n";

fn main() -> Result<ExitCode, Failed> {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--load") {
        load(&arguments[at + 1], &arguments[at + 2], &arguments[at + 3])?;
        return Ok(ExitCode::SUCCESS);
    }
    let check = arguments.iter().any(|argument| argument == "--check");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = Folder::new()?;
    let (bare, mcp) = runtime.block_on(start(&folder))?;
    let session = Connection::open(&mcp)?.send("", HELLO)?.ok_or("no session")?;
    let in_session = format!("mcp-session-id: {session}\r\n");
    let cases = [
        ("bare axum", &bare, HEADERS, STATELESS),
        ("2026-07-28", &mcp, HEADERS, STATELESS),
        ("in a session", &mcp, in_session.as_str(), IN_SESSION),
    ];
    let mut costs = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, address, headers, body), costs) in cases.iter().zip(&mut costs) {
            costs.push(measure(address, headers, body)?);
        }
    }
    let middle: Vec<f64> = costs.iter_mut().map(|costs| middle(costs)).collect();
    let mut broken = 0;
    println!("{:<42} {:>9.2} µs", "bare axum, CPU per request", middle[0]);
    for (place, (what, ..)) in cases.iter().enumerate().skip(1) {
        println!("{:<42} {:>9.2} µs", format!("tools/call {what}, CPU per request"), middle[place]);
        broken += row(&format!("tools/call {what} / bare"), middle[place] / middle[0], "×", 1.5);
    }
    let before = resident()?;
    let mut connection = Connection::open(&mcp)?;
    for _ in 0..SESSIONS {
        connection.send("", HELLO)?.ok_or("no session")?;
    }
    let each = (resident()? - before) / SESSIONS as f64;
    broken += row("an idle session", each, "KB", 10.0);
    Ok(ExitCode::from(u8::from(check && broken > 0)))
}

fn row(what: &str, value: f64, unit: &str, budget: f64) -> usize {
    let kept = value <= budget;
    println!("{what:<42} {value:>9.2} {unit:<3} budget {budget:>6} {}", if kept { "PASS" } else { "FAIL" });
    usize::from(!kept)
}

/// Both servers, with an echo tool behind ours.
async fn start(folder: &Folder) -> Result<(String, String), Failed> {
    let bare = TcpListener::bind("127.0.0.1:0").await?;
    let bare_address = bare.local_addr()?.to_string();
    let router = Router::new().route("/mcp", post(parse_and_answer));
    let listener = bare.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let engine = engine(folder)?;
    let mcp = Mcp::new(engine.clone(), Services::default(), McpOptions::new([1; 32]));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let options = Options {
        max_body: 1 << 20,
        max_connections: 1000,
        header_timeout: Duration::from_secs(10),
        stalled: Duration::from_secs(60),
        drain: Duration::ZERO,
    };
    tokio::spawn(serve(listener, engine, mcp, options, std::future::pending()));
    Ok((bare_address, address))
}

/// The least that any server does: the whole message parsed, an answer of the same size written.
async fn parse_and_answer(body: Bytes) -> ([(header::HeaderName, &'static str); 1], Vec<u8>) {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let Ok(message) = serde_json::from_slice::<serde_json::Value>(&body) else { return (kind, Vec::new()) };
    let arguments = &message["params"]["arguments"];
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": {
        "resultType": "complete",
        "content": [{"type": "text", "text": arguments.to_string()}],
        "structuredContent": arguments,
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "toolyard", "version": "0.1.0"},
                  "toolyard/call": "019a8b1e-0000-7000-8000-000000000000"},
    }});
    (kind, serde_json::to_vec(&answer).unwrap_or_default())
}

struct Echo;

impl Runner for Echo {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move { Ok(Outcome::success(Some(run.call.arguments.clone()))) })
    }
}

fn engine(folder: &Folder) -> Result<Arc<Engine>, Failed> {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"}}}"#;
    let spec = ToolSpec {
        name: ToolName::parse("bench.echo")?,
        exposed: ExposedName::parse("echo")?,
        kind: "bench",
        source: "bench".into(),
        about: About::default(),
        annotations: Annotations::default(),
        timing: Timing::Sync,
        limits: Limits { timeout: Duration::from_secs(30), input: 1 << 20, output: 1 << 20 },
        conduct: Conduct::default(),
        sandbox: Sandbox::NotNeeded,
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: Some(Payload::json(schema)),
        output_schema: None,
    };
    let entry = Entry {
        controls: Arc::new(Controls::new(&spec.conduct)),
        spec,
        runner: Box::new(Echo),
        input: Some(Box::new(Schema::compile(schema.as_bytes())?)),
        output: None,
        cache_key: None,
    };
    let candidate = Candidate { entry: Arc::new(entry), enabled: true };
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let view = Arc::new(View);
    let audit = AuditLog::open(&folder.0, AuditOptions::default(), clock.clone(), random.clone(), view)?;
    Ok(Arc::new(Engine {
        registry: Arc::new(Registry::new(Snapshot::build(vec![candidate], Vec::new()))),
        audit,
        cache: Cache::open(&folder.0, CacheOptions::default(), clock.clone()),
        redactor: Arc::new(NothingSecret),
        jobs: JobsDoor::shut(),
        clock,
        random,
    }))
}

/// CPU microseconds of this process for each request of another.
fn measure(address: &str, headers: &str, body: &str) -> Result<f64, Failed> {
    let before = cpu_ticks()?;
    let program = std::env::current_exe()?;
    let ended = Command::new(program).args(["--load", address, headers, body]).status()?;
    if !ended.success() {
        return Err("the load failed".into());
    }
    // The last records are counted once they are synced.
    std::thread::sleep(Duration::from_millis(150));
    let ticks = (cpu_ticks()? - before) as f64;
    Ok(ticks * 10_000.0 / (CONNECTIONS * REQUESTS) as f64)
}

/// User and system time of this process in hundredths of a second.
fn cpu_ticks() -> Result<u64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit_once(')').ok_or("no name in stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn resident() -> Result<f64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn middle(costs: &mut [f64]) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// The other process: keep-alive connections that send one request after the other.
fn load(address: &str, headers: &str, body: &str) -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let each = || -> Result<(), std::io::Error> {
            let mut connection = Connection::open(address)?;
            for _ in 0..REQUESTS {
                connection.send(headers, body)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(each)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a connection panicked")??;
        }
        Ok(())
    })
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: &str) -> Result<Connection, std::io::Error> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Gives the session id, if the answer names one.
    fn send(&mut self, headers: &str, body: &str) -> Result<Option<String>, std::io::Error> {
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut length, mut session) = (String::new(), 0, None);
        self.0.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200") {
            return Err(std::io::Error::other(line));
        }
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().unwrap_or(0),
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer)?;
        Ok(session)
    }
}

/// Removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failed> {
        let path = std::env::temp_dir().join(format!("toolyard-bench-mcp-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
