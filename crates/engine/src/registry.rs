//! Which tools there are. Readers take a snapshot; a reload swaps in a new one and never disturbs a running call.

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

    /// Does ahead of the first call what would make it slow; `true` when there was something to do.
    fn prepare<'a>(&'a self) -> PrepareFuture<'a> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// `None` when the tool's files are not those its digest was made of: a result of other files must not be kept
    /// under that digest. Else a number that is another one after a change, even one that was undone.
    fn files_version(&self) -> Option<u64> {
        Some(0)
    }

    /// A mark of the secrets that the tool is given: with others it may answer otherwise.
    fn secrets_fingerprint(&self) -> Option<[u8; 32]> {
        None
    }
}

/// What a runner is given.
pub struct Run<'a> {
    pub call: &'a Call,
    /// Who hears of progress and can be asked.
    pub caller: &'a dyn Caller,
    pub spec: &'a ToolSpec,
    /// The earlier of the tool's timeout and the caller's deadline.
    pub deadline: Instant,
}

impl Run<'_> {
    /// A tool's clock stops while one of its questions waits for an answer, in all of a run at most this long.
    pub const MAX_WAIT_FOR_ANSWERS: Duration = Duration::from_secs(10 * 60);
}

/// A tool that can be called.
pub struct Entry {
    pub spec: ToolSpec,
    pub runner: Box<dyn Runner>,
    pub input: Option<Box<dyn Check>>,
    pub output: Option<Box<dyn Check>>,
    /// Present when results may be kept.
    pub cache_key: Option<Box<dyn CacheKey>>,
    pub limiter: Arc<ToolLimiter>,
}

/// A tool as a source offers it, before names are compared.
#[derive(Clone)]
pub struct Candidate {
    pub entry: Arc<Entry>,
    pub enabled: bool,
}

/// What is wrong with a source, in words for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    /// The file, relative to the yard.
    pub source: String,
    /// Line and column, where they are known.
    pub place: Option<(u32, u32)>,
    pub message: String,
    pub hint: Option<String>,
    pub severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The tool is not there.
    Error,
    /// The tool is there, but something about it will surprise.
    Warning,
    /// Nothing is wrong; the owner should know all the same.
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
    /// Counts the listings that clients were shown.
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

    /// A number that is another one whenever the list of tools, as a client sees it, is.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.listing.subscribe()
    }

    /// Tells those who wait for it that the list is another one.
    pub(crate) fn listing_changed(&self) {
        self.listing.send_modify(|count| *count += 1);
    }

    /// The tool of that name, exposed or canonical. The caller keeps this version whatever a reload does.
    pub fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.current.load().by_name.get(name).cloned()
    }

    /// The same, or an error that names the nearest tool there is.
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
    /// `candidates` come in load order: where two claim one name, the first stays and the second is reported.
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

    /// Every callable tool, by canonical name.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    pub fn disabled(&self) -> impl Iterator<Item = &ToolSpec> {
        self.disabled.iter().map(|entry| &entry.spec)
    }

    pub fn problems(&self) -> &[SourceProblem] {
        &self.problems
    }

    /// The loaded name nearest to one that is not there.
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
        place: None,
        message: format!(
            "the name '{name}' is already taken by {}; {} is not loaded",
            first.spec.source, spec.source
        ),
        hint: Some("give one of the two another id".to_owned()),
        severity: Severity::Error,
    }
}
