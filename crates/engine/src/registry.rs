//! The tool registry. Readers take a snapshot; a reload swaps in a new one and never disturbs a running call.

use crate::gates::concurrency::ToolLimiter;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use toolyard_protocol::text::{escape_control, nearest};
use toolyard_protocol::{CacheKey, Call, Caller, Check, Error, ErrorKind, Outcome, ToolSpec};

pub type RunFuture<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send + 'a>>;

pub type PrepareFuture<'a> = Pin<Box<dyn Future<Output = Result<bool, Error>> + Send + 'a>>;

/// How one tool runs. Dropping the future must stop the work.
pub trait Runner: Send + Sync {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a>;

    /// Does slow setup ahead of the first call; `true` when there was something to do.
    fn prepare<'a>(&'a self) -> PrepareFuture<'a> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Whether each run calls [`Caller::begin_work`] before it does anything that must not be done twice. Other runs
    /// count as begun from the start.
    fn announces_start(&self) -> bool {
        false
    }

    /// `None` when the tool's files no longer match its digest: their results must not be cached under that
    /// digest. Otherwise a version that is incremented by every change, even one that was undone.
    fn files_version(&self) -> Option<u64> {
        Some(0)
    }

    /// A hash of the secrets passed to the tool: other secrets may lead to another result.
    fn secrets_fingerprint(&self) -> Option<[u8; 32]> {
        None
    }
}

/// The input of a runner.
pub struct Run<'a> {
    pub call: &'a Call,
    /// Receives progress and log lines, and answers questions.
    pub caller: &'a dyn Caller,
    pub spec: &'a ToolSpec,
    /// The earlier of the tool's timeout and the caller's deadline.
    pub deadline: Instant,
}

impl Run<'_> {
    /// A tool's deadline is paused while a question waits for an answer, at most this long in total per run.
    pub const MAX_WAIT_FOR_ANSWERS: Duration = Duration::from_secs(10 * 60);
}

/// A tool that can be called.
pub struct Entry {
    pub spec: ToolSpec,
    pub runner: Box<dyn Runner>,
    pub input: Option<Box<dyn Check>>,
    pub output: Option<Box<dyn Check>>,
    /// Present when results may be cached.
    pub cache_key: Option<Box<dyn CacheKey>>,
    pub limiter: Arc<ToolLimiter>,
}

/// A tool as its source defines it, before name collisions are resolved.
#[derive(Clone)]
pub struct Candidate {
    pub entry: Arc<Entry>,
    pub enabled: bool,
}

/// A problem in a source file, reported to its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    /// The file, relative to the yard.
    pub source: String,
    /// Line and column, if known.
    pub position: Option<(u32, u32)>,
    pub message: String,
    pub hint: Option<String>,
    pub severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The tool is not loaded.
    Error,
    /// The tool is loaded but may not behave as its author expects.
    Warning,
    /// For information only.
    Note,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// The tools at one moment.
#[derive(Default)]
pub struct Snapshot {
    by_name: HashMap<Box<str>, Arc<Entry>>,
    entries: Vec<Arc<Entry>>,
    disabled: Vec<Arc<Entry>>,
    problems: Vec<SourceProblem>,
}

/// The current snapshot behind a lock-free pointer.
#[derive(Default)]
pub struct Registry {
    current: ArcSwap<Snapshot>,
    /// The version of the visible tool list.
    listing: watch::Sender<u64>,
}

impl Registry {
    pub fn new(snapshot: Snapshot) -> Registry {
        Registry { current: ArcSwap::from_pointee(snapshot), listing: watch::Sender::default() }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub fn replace(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
    }

    /// Incremented whenever the visible tool list changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.listing.subscribe()
    }

    /// Notifies subscribers that the visible tool list changed.
    pub(crate) fn listing_changed(&self) {
        self.listing.send_modify(|count| *count += 1);
    }

    /// The tool with this exposed or canonical name. A reload does not change the returned version.
    pub fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.current.load().by_name.get(name).cloned()
    }

    /// The same, or an error that suggests the most similar name.
    pub fn require(&self, name: &str) -> Result<Arc<Entry>, Error> {
        self.find(name).ok_or_else(|| {
            let shown: String = escape_control(name).chars().take(100).collect();
            let snapshot = self.snapshot();
            let hint = match snapshot.nearest(name) {
                Some(near) => format!("did you mean '{near}'?"),
                None if snapshot.entries().is_empty() => {
                    "no tools are loaded; 'toolyard check' says why".to_owned()
                }
                None => "'toolyard list' shows the tools that are loaded".to_owned(),
            };
            Error::new(ErrorKind::UnknownTool, format!("there is no tool '{shown}'")).hint(hint)
        })
    }
}

impl Snapshot {
    /// `candidates` are in load order: on a name collision the first is loaded and the second reported.
    pub fn build(candidates: Vec<Candidate>, problems: Vec<SourceProblem>) -> Snapshot {
        let mut snapshot = Snapshot { problems, ..Snapshot::default() };
        for Candidate { entry, enabled } in candidates {
            let names = [entry.spec.exposed.as_str(), entry.spec.name.as_str()];
            let taken =
                names.into_iter().find_map(|name| snapshot.by_name.get(name).map(|first| (name, first)));
            if let Some((name, first)) = taken {
                let problem = collision(&entry.spec, name, first);
                snapshot.problems.push(problem);
            } else if !enabled {
                snapshot.disabled.push(entry);
            } else {
                let names = names.map(Box::<str>::from);
                snapshot.by_name.extend(names.map(|name| (name, entry.clone())));
                snapshot.entries.push(entry);
            }
        }
        snapshot.entries.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        snapshot
    }

    /// Every callable tool, sorted by canonical name.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    pub fn disabled(&self) -> impl Iterator<Item = &ToolSpec> {
        self.disabled.iter().map(|entry| &entry.spec)
    }

    pub fn problems(&self) -> &[SourceProblem] {
        &self.problems
    }

    /// The loaded name most similar to an unknown one.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let names = || self.by_name.keys().map(AsRef::as_ref);
        // People forget the module more often than they mistype the tool.
        let same_tool = names().filter(|known: &&str| known.rsplit('.').next() == Some(name)).min();
        same_tool.or_else(|| nearest(name, names()))
    }
}

fn collision(spec: &ToolSpec, name: &str, first: &Entry) -> SourceProblem {
    SourceProblem {
        source: spec.source.clone(),
        position: None,
        message: format!(
            "the name '{name}' is already taken by {}; {} is not loaded",
            first.spec.source, spec.source
        ),
        hint: Some("give one of the two another id".to_owned()),
        severity: Severity::Error,
    }
}
