//! CPU time of the first load of a yard, of a load with one changed file, and of an idle watcher.
//! `cargo run --release -p toolyard-yard --example reload_cost [tools]`

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_engine::Registry;
use toolyard_protocol::Limits;
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_yard::{Defaults, Loader, SandboxPolicy, WatchEvent, WatchOptions, Watcher};

const ROUNDS: usize = 50;
const FIRST: Duration = Duration::from_secs(1);
const RELOAD: Duration = Duration::from_millis(20);
/// Of one second.
const IDLE: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn Error>> {
    let tools: usize = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())?;
    let root = std::env::temp_dir().join(format!("toolyard-reload-cost-{}", std::process::id()));
    let measured = measure(&root, tools);
    fs::remove_dir_all(&root)?;
    measured
}

fn measure(root: &Path, tools: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(root.join("scripts"))?;
    let root = fs::canonicalize(root)?;
    for n in 0..tools {
        write_tool(&root, n, 0)?;
    }
    std::thread::sleep(Duration::from_millis(100));
    let limits = Limits { timeout: Duration::from_secs(5), input: 65536, output: 65536 };
    let host = Arc::new(Host::new([("PATH".into(), "/usr/bin:/bin".into())]));
    let launcher = Arc::new(Launcher::new(&root)?);
    let loader = Loader::new(
        root.clone(),
        root.join(".toolyard"),
        host,
        launcher,
        Defaults { pack: limits, manifest: limits },
        SandboxPolicy::default(),
    );
    let registry = Registry::default();
    println!("{tools} tools, each with a script and two schema files, in {} folders", tools.div_ceil(10));

    let before = cpu_time();
    registry.update(loader.load().into_snapshot());
    report("first load", cpu_time() - before, FIRST);
    if registry.snapshot().entries().len() != tools || !registry.snapshot().problems().is_empty() {
        return Err(format!("the yard did not load as expected: {:?}", registry.snapshot().problems()).into());
    }

    let mut each = Vec::with_capacity(ROUNDS);
    for round in 1..=ROUNDS {
        write_tool(&root, round * 7 % tools, round)?;
        std::thread::sleep(Duration::from_millis(60));
        let before = cpu_time();
        let loaded = loader.load();
        let read = loaded.read;
        let changes = registry.update(loaded.into_snapshot());
        each.push(cpu_time() - before);
        if (read, changes.changed.len()) != (1, 1) {
            return Err(format!("{read} files were read: {changes}").into());
        }
    }
    each.sort();
    report("load with one changed file, median", each[ROUNDS / 2], RELOAD);
    report("load with one changed file, worst", each[ROUNDS - 1], RELOAD);
    watched(&root, Arc::new(loader), Arc::new(registry), tools)
}

/// End to end: event, debounce, load, updated watches, registry.
fn watched(
    root: &Path,
    loader: Arc<Loader>,
    registry: Arc<Registry>,
    tools: usize,
) -> Result<(), Box<dyn Error>> {
    let (sender, loads) = channel();
    let modes = Arc::new(Mutex::new(Vec::new()));
    let shown = modes.clone();
    let watcher = Watcher::start(loader, WatchOptions::default(), move |event| match event {
        WatchEvent::Loaded(loaded) => {
            registry.update(loaded.into_snapshot());
            let _ = sender.send(());
        }
        WatchEvent::Loading => {}
        WatchEvent::Polling(reason) => {
            shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(reason)
        }
    })?;
    let rest = || while loads.recv_timeout(Duration::from_millis(400)).is_ok() {};
    rest();
    let mut each = Vec::with_capacity(ROUNDS / 5);
    for round in 1..=ROUNDS / 5 {
        let file = write_tool(root, round * 11 % tools, ROUNDS + round)?;
        // A recent stamp is not reliable and causes a second load; only the first is measured.
        let before = cpu_time();
        let noticed = loads.recv_timeout(Duration::from_secs(2));
        noticed.map_err(|_| format!("{} was not noticed", file.display()))?;
        std::thread::sleep(Duration::from_millis(20));
        each.push(cpu_time() - before);
        rest();
    }
    each.sort();
    report("reload through the watcher, median", each[each.len() / 2], RELOAD);
    report("reload through the watcher, worst", each[each.len() - 1], RELOAD);
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    report("idle watcher, per second", cpu_time() - before, IDLE);
    for reason in modes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).iter() {
        println!("by polling, because {reason}");
    }
    drop(watcher);
    Ok(())
}

/// An ordinary tool: a script, an input and an output schema in files of their own.
fn write_tool(root: &Path, n: usize, version: usize) -> std::io::Result<PathBuf> {
    let folder = root.join(format!("tools/group{}", n / 10));
    fs::create_dir_all(&folder)?;
    let manifest = folder.join(format!("tool{n}.tool.yaml"));
    fs::write(
        &manifest,
        format!(
            "id: tool{n}\ntitle: Tool number {n}\ndescription: Counts the words of a text, version {version}.\n\
             kind: cli\nentry: [sh, scripts/tool{n}.sh, '{{{{ input.text }}}}']\ntimeoutMs: 5000\n\
             deterministic: true\nannotations: {{readOnlyHint: true, idempotentHint: true}}\n\
             schema:\n  input: {{$ref: ./tool{n}.in.json}}\n  output: {{$ref: ./tool{n}.out.json}}\n"
        ),
    )?;
    if version == 0 {
        fs::write(
            folder.join(format!("tool{n}.in.json")),
            r#"{"type":"object","required":["text"],"additionalProperties":false,"properties":{"text":{"type":"string","maxLength":10000},"lang":{"enum":["en","de","fr"]}}}"#,
        )?;
        let output = r#"{"type":"object","properties":{"words":{"type":"integer","minimum":0}}}"#;
        fs::write(folder.join(format!("tool{n}.out.json")), output)?;
        fs::write(
            root.join(format!("scripts/tool{n}.sh")),
            format!("# {n}\necho \"{{\\\"words\\\": 3}}\"\n"),
        )?;
    }
    Ok(manifest)
}

fn report(what: &str, cpu: Duration, budget: Duration) {
    let verdict = if cpu <= budget { "ok" } else { "OVER" };
    println!(
        "{what:<42} {:>9.3} ms CPU   budget {:>6} ms   {verdict}",
        cpu.as_secs_f64() * 1e3,
        budget.as_millis()
    );
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
