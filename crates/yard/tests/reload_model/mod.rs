//! The yard that `reload.rs` edits, with a history of the expected result of every tool.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use toolyard_engine::clock::{SystemClock, SystemRandom};
use toolyard_engine::jobs::LazyJobs;
use toolyard_engine::{Engine, Registry};
use toolyard_formats::redact::by_name::View;
use toolyard_protocol::{Call, Edge, ErrorKind, Limits, NoopCaller, Payload};
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_store::audit::{FileAuditLog, Options};
use toolyard_store::sqlite::open_cache;
use toolyard_yard::{Defaults, Loader, SandboxPolicy, WatchEvent, WatchOptions, Watcher};

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Answer(String),
    /// There is no such tool: it is gone, or its file is broken.
    Unknown,
    /// The schema refuses the arguments.
    Refused,
    /// The script is gone or empty.
    Failed,
}

struct Span {
    state: State,
    from: Instant,
    until: Option<Instant>,
}

/// A small deterministic generator (xorshift).
#[derive(Clone, Copy)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

pub struct Yard {
    root: PathBuf,
    pub engine: Arc<Engine>,
    launcher: Arc<Launcher>,
    history: Mutex<Vec<Vec<Span>>>,
    versions: Mutex<Vec<u64>>,
    tools: usize,
    watcher: Option<Watcher>,
    /// When the registry was updated.
    updates: Arc<Mutex<Vec<Instant>>>,
}

const GROUPS: usize = 3;

impl Yard {
    pub fn start(name: &str, tools: usize, polling: bool) -> Yard {
        let root = std::env::temp_dir().join(format!("toolyard-reload-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join(".toolyard")).unwrap();
        let root = fs::canonicalize(root).unwrap();
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let state = root.join(".toolyard");
        let audit =
            FileAuditLog::open(&state, Options::default(), clock.clone(), random.clone(), Arc::new(View));
        let cache = open_cache(&state, Default::default(), clock.clone());
        let registry = Arc::new(Registry::default());
        let redactor = Arc::new(toolyard_protocol::NoopRedactor);
        let engine = Arc::new(Engine {
            registry,
            rate_limits: toolyard_engine::Lazy::unavailable(),
            audit: audit.unwrap(),
            cache,
            redactor,
            jobs: LazyJobs::unavailable(),
            call_limit: toolyard_engine::CallLimit::default(),
            clock,
            random,
        });
        let launcher = Arc::new(Launcher::new(&state).unwrap());
        let history = Mutex::new((0..tools).map(|_| Vec::new()).collect());
        let versions = Mutex::new(vec![0; tools]);
        let mut yard =
            Yard { root, engine, launcher, history, versions, tools, watcher: None, updates: Arc::default() };
        for tool in 0..tools {
            yard.write(&yard.changing(tool), "");
            yard.set(&[tool], |_| yard.state_of(tool, 0), || yard.write_all(tool));
        }
        let options = WatchOptions { polling, ignore: Some(yard.state()), config: None };
        let (target, updates) = (yard.engine.clone(), yard.updates.clone());
        let watcher = Watcher::start(Arc::new(yard.loader()), options, move |event| {
            if let WatchEvent::Loaded(loaded) = event {
                target.registry.update(loaded.into_snapshot());
                updates.lock().unwrap().push(Instant::now());
            }
        });
        yard.watcher = Some(watcher.unwrap());
        yard
    }

    /// A loader with an empty cache.
    pub fn loader(&self) -> Loader {
        let limits = Limits { timeout: Duration::from_secs(20), input: 65536, output: 65536 };
        let host = Arc::new(Host::new([("PATH".into(), "/usr/bin:/bin".into())]));
        Loader::new(
            self.root.clone(),
            self.state(),
            host,
            self.launcher.clone(),
            Defaults { pack: limits, manifest: limits },
            SandboxPolicy::default(),
        )
    }

    pub fn state(&self) -> PathBuf {
        self.root.join(".toolyard")
    }

    pub fn tools(&self) -> usize {
        self.tools
    }

    /// The result of the call, and whether it was cached.
    pub async fn call(&self, tool: usize) -> (State, bool) {
        self.call_named(&format!("t{tool}")).await
    }

    pub async fn call_named(&self, tool: &str) -> (State, bool) {
        let arguments = Payload::json("{}");
        let call = Call::new(self.engine.call_id(), tool, arguments, Edge::Cli);
        let outcome = self.engine.run(call, &NoopCaller).await;
        let state = match outcome.error() {
            None => State::Answer(String::from_utf8_lossy(outcome.data().unwrap().bytes()).trim().to_owned()),
            Some(error) => match error.kind {
                ErrorKind::UnknownTool => State::Unknown,
                ErrorKind::InvalidInput => State::Refused,
                ErrorKind::ToolFailed | ErrorKind::InvalidOutput => State::Failed,
                _ => panic!("{tool}: {error:?}"),
            },
        };
        (state, outcome.meta.cached)
    }

    /// The expected result while no edit is in progress.
    pub fn now(&self, tool: usize) -> State {
        self.history.lock().unwrap()[tool].last().unwrap().state.clone()
    }

    /// Every state that a call in that time may have seen: from the load that produced the registry at the
    /// start, to the end. Loads are sequential, so that one began when the previous one was done.
    pub fn between(&self, tool: usize, start: Instant, end: Instant) -> Vec<State> {
        let updates = self.updates.lock().unwrap();
        let done = updates.partition_point(|update| *update < start);
        let start = if done < 2 { updates[0] } else { updates[done - 2] };
        let history = self.history.lock().unwrap();
        let spans = history[tool]
            .iter()
            .filter(|span| span.from <= end && span.until.is_none_or(|until| until >= start));
        spans.map(|span| span.state.clone()).collect()
    }

    /// One random edit.
    pub fn edit(&self, random: &mut Random) {
        let tool = random.below(self.tools as u64) as usize;
        match random.below(20) {
            0..10 => self.new_version(tool, random),
            10..14 => self.there_and_back(tool, random),
            14..16 => {
                // A tool whose manifest is broken is unknown either way.
                let gone = if self.now(tool) == State::Unknown { State::Unknown } else { self.without(tool) };
                self.set(&[tool], |_| gone.clone(), || self.remove(&self.changing(tool)));
            }
            16 => {
                self.set(&[tool], |_| State::Unknown, || self.write(&self.manifest(tool), "kind: nonsense\n"))
            }
            17 => self.touch(tool),
            18 => self.move_tools(tool % GROUPS, random),
            _ => self.move_scripts(random),
        }
    }

    fn new_version(&self, tool: usize, random: &mut Random) {
        let version = {
            let mut versions = self.versions.lock().unwrap();
            versions[tool] += 1;
            versions[tool]
        };
        self.save(tool, version, random);
    }

    /// A → B → A, so quickly that a load may see B or not.
    fn there_and_back(&self, tool: usize, random: &mut Random) {
        let version = self.versions.lock().unwrap()[tool];
        for version in [version, version + 1000, version] {
            self.save(tool, version, random);
            std::thread::sleep(Duration::from_millis(random.below(3) * 20));
        }
    }

    /// Saves the way some editor does, after repairing the manifest.
    fn save(&self, tool: usize, version: u64, random: &mut Random) {
        let (file, text) = (self.root.join(self.changing(tool)), self.text(tool, version));
        self.repair_manifest(tool);
        let pause = || std::thread::sleep(Duration::from_millis(3));
        match random.below(4) {
            0 => {
                self.set(&[tool], |_| self.without(tool), || fs::write(&file, "").unwrap());
                pause();
                self.set(&[tool], |_| self.state_of(tool, version), || fs::write(&file, &text).unwrap());
            }
            1 => {
                self.set(&[tool], |_| self.without(tool), || drop(fs::remove_file(&file)));
                pause();
                self.set(&[tool], |_| self.state_of(tool, version), || fs::write(&file, &text).unwrap());
            }
            2 => self.set(
                &[tool],
                |_| self.state_of(tool, version),
                || {
                    let new = file.with_extension("tmp");
                    fs::write(&new, &text).unwrap();
                    fs::rename(&new, &file).unwrap();
                },
            ),
            _ => {
                self.set(
                    &[tool],
                    |_| self.without(tool),
                    || drop(fs::rename(&file, file.with_extension("bak"))),
                );
                self.set(&[tool], |_| self.state_of(tool, version), || fs::write(&file, &text).unwrap());
            }
        }
    }

    /// Restores a manifest that an earlier edit broke.
    fn repair_manifest(&self, tool: usize) {
        let manifest = self.manifest(tool);
        if manifest != self.changing(tool) && self.now(tool) == State::Unknown {
            let text = self.manifest_text(tool, 0);
            // The result depends on the other file; every state is possible until the save that follows.
            for state in [State::Failed, State::Refused, self.state_of(tool, 0), State::Unknown] {
                self.set(&[tool], |_| state.clone(), || ());
            }
            self.write(&manifest, &text);
        }
    }

    fn touch(&self, tool: usize) {
        if let Ok(file) = fs::File::options().append(true).open(self.root.join(self.changing(tool))) {
            file.set_modified(std::time::SystemTime::now()).unwrap();
        }
    }

    /// Moves a folder of tools away and back.
    fn move_tools(&self, group: usize, random: &mut Random) {
        let tools: Vec<usize> = (0..self.tools).filter(|tool| tool % GROUPS == group).collect();
        let (home, away) = (self.root.join(format!("tools/g{group}")), self.root.join("away"));
        let before: Vec<State> = tools.iter().map(|tool| self.now(*tool)).collect();
        self.set(&tools, |_| State::Unknown, || fs::rename(&home, &away).unwrap());
        std::thread::sleep(Duration::from_millis(random.below(200)));
        self.set(&tools, |n| before[n].clone(), || fs::rename(&away, &home).unwrap());
    }

    fn move_scripts(&self, random: &mut Random) {
        let tools: Vec<usize> = (0..self.tools).filter(|tool| self.is_deterministic(*tool)).collect();
        let (home, away) = (self.root.join("scripts"), self.root.join("moved"));
        let before: Vec<State> = tools.iter().map(|tool| self.now(*tool)).collect();
        let missing =
            |state: &State| if matches!(state, State::Answer(_)) { State::Failed } else { state.clone() };
        let by_script = |n: usize| if tools[n] % 4 == 2 { before[n].clone() } else { missing(&before[n]) };
        self.set(&tools, by_script, || fs::rename(&home, &away).unwrap());
        std::thread::sleep(Duration::from_millis(random.below(200)));
        self.set(&tools, |n| before[n].clone(), || fs::rename(&away, &home).unwrap());
    }

    /// Before `change` the tools were as they were, after it they are in their new state, during it either may be.
    fn set(&self, tools: &[usize], state: impl Fn(usize) -> State, change: impl FnOnce()) {
        let from = Instant::now();
        for (n, tool) in tools.iter().enumerate() {
            self.history.lock().unwrap()[*tool].push(Span { state: state(n), from, until: None });
        }
        change();
        let mut history = self.history.lock().unwrap();
        for tool in tools {
            let spans = &mut history[*tool];
            let last = spans.len() - 1;
            spans[..last]
                .iter_mut()
                .filter(|span| span.until.is_none())
                .for_each(|span| span.until = Some(Instant::now()));
        }
    }

    // Four kinds of tools: 0 answers from its manifest; 1 from its script, cached; 2 from its manifest,
    // cached; 3 has a schema that refuses every other version, cached.

    pub fn is_deterministic(&self, tool: usize) -> bool {
        !tool.is_multiple_of(4)
    }

    fn manifest(&self, tool: usize) -> String {
        format!("tools/g{}/t{tool}.tool.yaml", tool % GROUPS)
    }

    /// The file that edits of the tool change.
    fn changing(&self, tool: usize) -> String {
        match tool % 4 {
            1 => format!("scripts/t{tool}.sh"),
            3 => format!("tools/g{}/t{tool}.schema.json", tool % GROUPS),
            _ => self.manifest(tool),
        }
    }

    fn text(&self, tool: usize, version: u64) -> String {
        match tool % 4 {
            1 => format!("echo '\"v{version}\"'\n"),
            3 if version % 2 == 1 => format!("{{\"title\": \"v{version}\", \"required\": [\"x\"]}}"),
            3 => format!("{{\"title\": \"v{version}\"}}"),
            _ => self.manifest_text(tool, version),
        }
    }

    fn manifest_text(&self, tool: usize, version: u64) -> String {
        let head = format!("id: t{tool}\nkind: cli\ndeterministic: {}\n", self.is_deterministic(tool));
        match tool % 4 {
            1 => format!("{head}entry: [sh, scripts/t{tool}.sh]\n"),
            3 => format!(
                "{head}entry: [sh, scripts/same.sh]\nschema: {{input: {{$ref: ./t{tool}.schema.json}}}}\n"
            ),
            _ => format!("{head}entry: [echo, '\"v{version}\"']\n"),
        }
    }

    fn state_of(&self, tool: usize, version: u64) -> State {
        match tool % 4 {
            3 if version % 2 == 1 => State::Refused,
            3 => State::Answer("\"same\"".to_owned()),
            _ => State::Answer(format!("\"v{version}\"")),
        }
    }

    /// Without the file that changes, or with nothing in it.
    fn without(&self, tool: usize) -> State {
        if tool % 4 == 1 { State::Failed } else { State::Unknown }
    }

    fn write_all(&self, tool: usize) {
        self.write("scripts/same.sh", "echo '\"same\"'\n");
        self.write(&self.manifest(tool), &self.manifest_text(tool, 0));
        self.write(&self.changing(tool), &self.text(tool, 0));
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A missing file is not an error.
    pub fn remove(&self, name: &str) {
        let path = self.root.join(name);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        self.watcher = None;
        let _ = fs::remove_dir_all(&self.root);
    }
}
