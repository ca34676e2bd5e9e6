//! Cost of a call against its budgets: the pipeline without a tool, a child process, a thousand tool files.
//!
//! `cargo bench -p toolyard --bench calls`; with `-- --check` it fails when a budget is exceeded. Budgets
//! are in CPU time, which transfers to other machines; wall time and throughput do not.
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::cache::Options as CacheOptions;
use toolyard_engine::clock::{SystemClock, SystemRandom, new_id};
use toolyard_engine::jobs::{self, Jobs, LazyJobs};
use toolyard_engine::{Engine, Entry, Registry, Run, RunFuture, Runner, Snapshot, ToolLimiter};
use toolyard_formats::cache_key::CanonicalKey;
use toolyard_formats::redact::by_name::View;
use toolyard_formats::schema::Schema;
use toolyard_protocol::{CacheKey, Call, Edge, Expect, Limits, NoopRedactor, Outcome, Payload, Timing};
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::faults::NoFaults;
use toolyard_store::sqlite;
use toolyard_store::sqlite::open_cache;
use toolyard_yard::{Defaults, Loader, SandboxPolicy};

type BoxError = Box<dyn Error>;

/// Each figure is the median of this many rounds, to reduce noise from other processes.
const ROUNDS: usize = 7;
const PROGRAM: &str = "/bin/cat";
const ARGUMENTS: &str = r#"{"text":"hello, world","count":3}"#;

fn main() -> Result<ExitCode, BoxError> {
    let check = std::env::args().any(|argument| argument == "--check");
    let mut table = Table::default();
    pipeline(&mut table, "pipeline without the tool", false, 8.0)?;
    pipeline(&mut table, "cache hit", true, 15.0)?;
    job(&mut table)?;
    validation(&mut table)?;
    cold_call(&mut table)?;
    thousand_files(&mut table)?;
    let log = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    tracing::subscriber::with_default(log, || pipeline(&mut table, "pipeline, calls logged", false, 12.0))?;
    println!("{}", if table.broken == 0 { "every budget is met" } else { "a budget is exceeded" });
    Ok(ExitCode::from(u8::from(check && table.broken > 0)))
}

/// All gates with both schemas and the audit log, around a tool that does nothing or, with `cached`, with a
/// cached result.
fn pipeline(table: &mut Table, what: &str, cached: bool, budget: f64) -> Result<(), BoxError> {
    const CALLS: u32 = 20_000;
    let yard = Folder::new("pipeline")?;
    let snapshot = idle_tools(&yard, cached)?;
    let engine = engine(&yard.path, snapshot, LazyJobs::unavailable())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        costs.push(measure(CALLS, || runtime.block_on(succeed(&engine, "echo")))?);
    }
    let cost = Cost::median(costs);
    table.row(&format!("{what}, CPU per call"), micros(cost.cpu), "µs", Some(budget));
    table.row(&format!("{what}, wall per call"), micros(cost.wall), "µs", None);
    Ok(())
}

/// A tool that does nothing as an `AsyncShort` job, minus the same tool without a job: with 64 callers, as on
/// a server, and with one. The state is in memory, because the kernel's work for a sync would be counted;
/// that a call waits for one synced group is tested in the engine.
fn job(table: &mut Table) -> Result<(), BoxError> {
    const CALLS: u32 = 6_400;
    let yard = Folder::in_memory("job")?;
    let snapshot = idle_tools(&yard, false)?;
    let state = yard.path.join(".toolyard");
    let engine = Arc::new(engine(&yard.path, snapshot, LazyJobs::new(move || open_jobs(&state)))?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for callers in [64, 1] {
        let (mut plain, mut jobs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (tool, costs) in [("echo", &mut plain), ("slow", &mut jobs)] {
                let calls = || runtime.block_on(run_callers(&engine, tool, callers, CALLS));
                let cost = measure(1, calls)?;
                costs.push(Cost { cpu: cost.cpu / CALLS, wall: cost.wall / CALLS });
            }
        }
        let (plain, jobs) = (Cost::median(plain), Cost::median(jobs));
        let overhead = micros(jobs.cpu.saturating_sub(plain.cpu));
        // A single caller shares its commits with nobody.
        let budget = Some(if callers > 1 { 50.0 } else { 80.0 });
        table.row(
            &format!("job beyond the same call without one, CPU, {callers} callers"),
            overhead,
            "µs",
            budget,
        );
    }
    Ok(())
}

async fn run_callers(
    engine: &Arc<Engine>,
    tool: &'static str,
    callers: u32,
    calls: u32,
) -> Result<(), BoxError> {
    let tasks = (0..callers).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for _ in 0..calls / callers {
                succeed(&engine, tool).await.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

fn open_jobs(state: &Path) -> Result<Arc<Jobs>, toolyard_protocol::Error> {
    let database = sqlite::Database::open(&state.join("yard.sqlite"), Arc::new(NoFaults))?;
    let events = sqlite::Events::new(database.clone(), sqlite::RING);
    let parts = jobs::Parts {
        store: Arc::new(sqlite::Jobs::new(database, &events)),
        events: Arc::new(events),
        codec: Arc::new(toolyard_wire::outcome::JsonOutcomeCodec),
        arguments: Arc::new(CanonicalKey),
        clock: Arc::new(SystemClock),
        options: jobs::Options::default().into(),
    };
    Ok(Jobs::open(state, new_id(&SystemClock, &SystemRandom), parts)?)
}

/// Two tools that do nothing: `echo` is called directly, `slow` as a job.
fn idle_tools(yard: &Folder, cached: bool) -> Result<Snapshot, BoxError> {
    struct Nothing;
    impl Runner for Nothing {
        fn run<'a>(&'a self, _: Run<'a>) -> RunFuture<'a> {
            Box::pin(async { Ok(Outcome::success(Some(Payload::json(r#"{"ok":true}"#)))) })
        }
    }
    yard.tool("echo", PROGRAM)?;
    yard.tool("slow", PROGRAM)?;
    let mut loaded = loader(&yard.path)?.load();
    let input = br#"{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"}}}"#;
    for candidate in &mut loaded.candidates {
        let mut spec = candidate.entry.spec.clone();
        if spec.exposed.as_str() == "slow" {
            spec.timing = Timing::AsyncShort;
        }
        candidate.entry = Arc::new(Entry {
            runner: Box::new(Nothing),
            input: Some(Box::new(Schema::compile(input)?)),
            output: Some(Box::new(Schema::compile(br#"{"type":"object"}"#)?)),
            cache_key: cached.then(|| Box::new(CanonicalKey) as Box<dyn CacheKey>),
            limiter: Arc::new(ToolLimiter::new(&spec.behavior)),
            spec,
        });
    }
    Ok(loaded.into_snapshot())
}

/// Validation of input and output of every tool of the example yard, parsing included: the slowest example of
/// each. Examples without a result validate the input only.
fn validation(table: &mut Table) -> Result<(), BoxError> {
    const CHECKS: u32 = 20_000;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yard").canonicalize()?;
    for entry in loader(&root)?.load().into_snapshot().entries() {
        let mut slowest: Option<(Duration, &str)> = None;
        for example in &entry.spec.examples {
            let (expected, what) = match &example.expect {
                Expect::Output(expected) => (Some(expected), "in and out"),
                Expect::Success => (None, "in"),
                Expect::Error(_) => continue,
            };
            let input = entry.input.as_ref().ok_or("an example tool without input schema")?;
            let output = entry.output.as_ref().ok_or("an example tool without output schema")?;
            let fits = || {
                input.check(&example.input).is_ok()
                    && expected.is_none_or(|expected| output.check(expected).is_ok())
            };
            let check = || if fits() { Ok(()) } else { Err("an example does not fit its schema".into()) };
            let costs = (0..ROUNDS).map(|_| measure(CHECKS, check)).collect::<Result<_, _>>()?;
            slowest = slowest.max(Some((Cost::median(costs).cpu, what)));
        }
        let (cost, what) = slowest.ok_or("a tool of the example yard has no examples")?;
        let row = format!("validation {what}, CPU: {}", entry.spec.exposed);
        table.row(&row, micros(cost), "µs", Some(1.0));
    }
    Ok(())
}

/// A `binary` tool through the whole pipeline, in its sandbox and without one, against a bare spawn of the same program,
/// in turns.
fn cold_call(table: &mut Table) -> Result<(), BoxError> {
    const CALLS: u32 = 200;
    let yard = Folder::new("cold")?;
    yard.tool("echo", PROGRAM)?;
    yard.unsandboxed("open", PROGRAM)?;
    let snapshot = loader(&yard.path)?.load().into_snapshot();
    let engine = Arc::new(engine(&yard.path, snapshot, LazyJobs::unavailable())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut sandboxed, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(measure(CALLS, bare_spawn)?);
        for (tool, costs) in [("echo", &mut sandboxed), ("open", &mut open)] {
            // On a worker, as in the server; otherwise each wake-up would cross threads.
            let batch = |engine: Arc<Engine>| async move {
                for _ in 0..CALLS {
                    succeed(&engine, tool).await.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            };
            let run = || Ok(runtime.block_on(runtime.spawn(batch(engine.clone())))??);
            costs.push(measure(1, run)?.divided(CALLS));
        }
    }
    let (bare, sandboxed, open) = (Cost::median(bare), Cost::median(sandboxed), Cost::median(open));
    table.row("bare posix_spawn and pipes, CPU", micros(bare.cpu), "µs", None);
    table.row("bare posix_spawn and pipes, wall", micros(bare.wall), "µs", None);
    for (what, cost) in
        [("cold binary call in its sandbox", sandboxed), ("cold binary call, sandbox: none", open)]
    {
        table.row(&format!("{what}, CPU"), micros(cost.cpu), "µs", None);
        table.row(&format!("{what}, wall"), micros(cost.wall), "µs", None);
        let ratio = |call: Duration, bare: Duration| call.as_secs_f64() / bare.as_secs_f64();
        table.row(&format!("{what} / bare, CPU"), ratio(cost.cpu, bare.cpu), "×", Some(3.0));
        table.row(&format!("{what} / bare, wall"), ratio(cost.wall, bare.wall), "×", None);
    }
    Ok(())
}

/// Half of the files are packs, half are manifests.
fn thousand_files(table: &mut Table) -> Result<(), BoxError> {
    let yard = Folder::new("files")?;
    for n in 0..500 {
        yard.tool(&format!("manifest_{n}"), PROGRAM)?;
        let pack = format!(
            "id: pack_{n}\nkind: cli\ntitle: Pack {n}\ndescription: One of many tools, described in a sentence.\n\
             version: \"1.0.{n}\"\nentry: [cat, tools/pack_{n}.tool.yaml]\ntimeoutMs: 5000\nlimits: {{input: 4096}}\n"
        );
        fs::write(yard.path.join(format!("tools/pack_{n}.tool.yaml")), pack)?;
    }
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        // A new loader each time, because a loader reads only changed files again.
        let loader = loader(&yard.path)?;
        costs.push(measure(1, || match loader.load().into_snapshot().entries().len() {
            1000 => Ok(()),
            other => Err(format!("{other} tools were loaded").into()),
        })?);
    }
    let cost = Cost::median(costs);
    table.row("loading 1,000 tool files, wall", cost.wall.as_secs_f64() * 1e3, "ms", Some(1000.0));
    table.row("loading 1,000 tool files, CPU", cost.cpu.as_secs_f64() * 1e3, "ms", Some(1000.0));
    let (start, megabytes) = serve(&yard.path)?;
    table.row("start of serve with 1,000 tools", start.as_secs_f64() * 1e3, "ms", None);
    table.row("memory of serve with 1,000 tools", megabytes, "MB", Some(25.0));
    Ok(())
}

/// Time to the first response and resident memory of the real server.
fn serve(yard: &Path) -> Result<(Duration, f64), BoxError> {
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
    let mut child =
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg(yard).stdout(Stdio::piped()).spawn()?;
    let measured = (|| {
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_whitespace().next());
        let mut stream = std::net::TcpStream::connect(address.ok_or("no address")?)?;
        stream.write_all(b"GET /mcp/discover HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.matches("\"canonicalName\"").count() != 1000 {
            return Err("the server does not have 1,000 tools".into());
        }
        let start = started.elapsed();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse()?;
        Ok::<_, BoxError>((start, kilobytes / 1024.0))
    })();
    child.kill()?;
    child.wait()?;
    measured
}

fn loader(root: &Path) -> Result<Loader, BoxError> {
    let limits = Limits { timeout: Duration::from_secs(30), input: 64 << 10, output: 256 << 10 };
    let (host, launcher) = (Arc::new(Host::new(std::env::vars_os())), Arc::new(Launcher::new(root)?));
    let defaults = Defaults { pack: limits, manifest: limits };
    Ok(Loader::new(
        root.to_owned(),
        root.join(".toolyard"),
        host,
        launcher,
        defaults,
        SandboxPolicy::default(),
    ))
}

fn engine(root: &Path, snapshot: Snapshot, jobs: LazyJobs) -> Result<Engine, BoxError> {
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let state = root.join(".toolyard");
    fs::create_dir_all(&state)?;
    let audit =
        FileAuditLog::open(&state, Options::default(), clock.clone(), random.clone(), Arc::new(View))?;
    let cache = open_cache(&state, CacheOptions::default(), clock.clone());
    let redactor = Arc::new(NoopRedactor);
    Ok(Engine {
        registry: Arc::new(Registry::new(snapshot)),
        rate_limits: toolyard_engine::Lazy::unavailable(),
        audit,
        cache,
        redactor,
        jobs,
        call_limit: toolyard_engine::CallLimit::default(),
        clock,
        random,
    })
}

async fn succeed(engine: &Engine, tool: &str) -> Result<(), BoxError> {
    let call = Call::new(engine.call_id(), tool, Payload::json(ARGUMENTS), Edge::Http);
    match engine.run(call, &toolyard_protocol::NoopCaller).await.error() {
        None => Ok(()),
        Some(error) => Err(error.clone().into()),
    }
}

/// The standard library uses `posix_spawn` where its options allow it. The program gets the same environment
/// as from toolyard, because loading a locale slows its start.
fn bare_spawn() -> Result<(), BoxError> {
    let mut child = Command::new(PROGRAM)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (mut stdin, mut stdout) = (child.stdin.take().ok_or("stdin")?, child.stdout.take().ok_or("stdout")?);
    stdin.write_all(ARGUMENTS.as_bytes())?;
    drop(stdin);
    let mut output = Vec::new();
    stdout.read_to_end(&mut output)?;
    child.wait()?;
    if output == ARGUMENTS.as_bytes() { Ok(()) } else { Err("wrong echo".into()) }
}

/// CPU and wall time of one run.
struct Cost {
    cpu: Duration,
    wall: Duration,
}

impl Cost {
    fn divided(self, runs: u32) -> Cost {
        Cost { cpu: self.cpu / runs, wall: self.wall / runs }
    }

    fn median(costs: Vec<Cost>) -> Cost {
        let (mut cpu, mut wall): (Vec<_>, Vec<_>) =
            costs.into_iter().map(|cost| (cost.cpu, cost.wall)).unzip();
        cpu.sort();
        wall.sort();
        Cost { cpu: cpu[cpu.len() / 2], wall: wall[wall.len() / 2] }
    }
}

fn measure(runs: u32, mut run: impl FnMut() -> Result<(), BoxError>) -> Result<Cost, BoxError> {
    let (cpu, wall) = (cpu_time(), Instant::now());
    for _ in 0..runs {
        run()?;
    }
    let wall = wall.elapsed();
    // Waits until the last children are reaped and the last records synced, to count them.
    std::thread::sleep(Duration::from_millis(150));
    Ok(Cost { cpu: (cpu_time() - cpu) / runs, wall: wall / runs })
}

/// User and system time of this process, all its threads, and every descendant that was waited for.
fn cpu_time() -> Duration {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // SAFETY: an all-zero rusage is valid, and the call only writes into it.
    let children = unsafe {
        let mut children = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut children);
        children
    };
    let part = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Duration::new(own.tv_sec as u64, own.tv_nsec as u32) + part(children.ru_utime) + part(children.ru_stime)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Prints a line per figure and counts the exceeded budgets.
#[derive(Default)]
struct Table {
    broken: usize,
}

impl Table {
    fn row(&mut self, what: &str, value: f64, unit: &str, budget: Option<f64>) {
        let Some(budget) = budget else {
            return println!("{what:<42} {value:>9.2} {unit}");
        };
        let within_budget = value <= budget;
        self.broken += usize::from(!within_budget);
        println!(
            "{what:<42} {value:>9.2} {unit:<3} budget {budget:>6} {}",
            if within_budget { "PASS" } else { "FAIL" }
        );
    }
}

/// A yard that is removed when dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Result<Folder, BoxError> {
        Folder::below(&std::env::temp_dir(), name)
    }

    /// In memory, where a sync costs nothing.
    fn in_memory(name: &str) -> Result<Folder, BoxError> {
        Folder::below(Path::new("/dev/shm"), name)
    }

    fn below(folder: &Path, name: &str) -> Result<Folder, BoxError> {
        let path = folder.join(format!("toolyard-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("tools"))?;
        Ok(Folder { path })
    }

    /// A `binary` tool in the default sandbox.
    fn tool(&self, name: &str, program: &str) -> Result<(), BoxError> {
        self.manifest(name, program, "")
    }

    /// A `binary` tool with `sandbox: none`.
    fn unsandboxed(&self, name: &str, program: &str) -> Result<(), BoxError> {
        self.manifest(name, program, "\"sandbox\": \"none\",")
    }

    fn manifest(&self, name: &str, program: &str, extra: &str) -> Result<(), BoxError> {
        let folder = self.path.join("tools").join(name);
        fs::create_dir_all(&folder)?;
        let manifest = format!(
            r#"{{"id": "{name}", "name": "Tool {name}", "description": "One of many tools, described in a sentence.",
  "version": "1.0.0", {extra} "runtime": "binary", "entry": {{"command": "{program}", "args": []}}}}"#
        );
        Ok(fs::write(folder.join("tool.json"), manifest)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
