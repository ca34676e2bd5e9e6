//! Runs cases on one target and checks their time and memory.

use crate::memory;
use crate::mutate::{Random, mutate};
use crate::targets::{self, Target};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of new kinds of answers whose inputs join the pool.
const MAX_POOL: usize = 2000;
const MAX_POOL_INPUT: usize = 8 * 1024;
/// Bytes that one case may allocate.
const MAX_MEMORY: usize = 32 << 20;

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub cases: u64,
    pub seed: u64,
    /// Maximum time of one case.
    pub time: Duration,
    /// Bytes that one case may allocate.
    pub memory: usize,
    /// Maximum growth of the bytes in use from the first tenth of the run to its end.
    pub growth: usize,
}

impl Limits {
    pub fn new(cases: u64) -> Limits {
        let (time, memory, growth) = (Duration::from_secs(5), MAX_MEMORY, 8 << 20);
        Limits { cases, seed: 1, time, memory, growth }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    pub cases: u64,
    /// Number of different kinds of answers.
    pub answers: usize,
    pub slowest: Duration,
    /// Peak allocation of one case, in bytes.
    pub most: usize,
    pub growth: usize,
    pub took: Duration,
}

/// Runs the corpus, then mutations of it. The error says what went wrong and where the input is saved.
pub fn fuzz(target: &Target, corpus: &Path, findings: &Path, limits: Limits) -> Result<Report, String> {
    let mut pool = read_corpus(corpus)?;
    let known = pool.len() as u64;
    let mut random = Random::new(limits.seed);
    let mut seen = HashSet::new();
    let watchdog = Watchdog::start(findings.join(format!("{}-hangs", target.name)), limits.time * 4);
    let begun = Instant::now();
    let mut report = Report {
        cases: limits.cases.max(known),
        answers: 0,
        slowest: Duration::ZERO,
        most: 0,
        growth: 0,
        took: Duration::ZERO,
    };
    // Bytes in use after the first tenth, and bytes added to the pool since.
    let (mut settled, mut pool_bytes) = (0, 0);
    for case in 0..report.cases {
        if case == report.cases / 10 {
            (settled, pool_bytes) = (memory::live(), 0);
        }
        let fresh = case >= known;
        let input = if fresh { mutate(&mut random, &pool) } else { pool[case as usize].clone() };
        watchdog.begin(&input);
        let before = memory::reset_peak();
        let started = Instant::now();
        let answer = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        let (took, most) = (started.elapsed(), memory::peak().saturating_sub(before));
        let wrong = match &answer {
            Err(_) => Some("it panicked".to_owned()),
            Ok(_) if took > limits.time => Some(format!("it took {took:?}")),
            Ok(_) if most > limits.memory => Some(format!("it allocated {most} bytes")),
            Ok(_) => None,
        };
        if let Some(what) = wrong {
            return Err(save_finding(target.name, findings, case, &input, &what));
        }
        report.slowest = report.slowest.max(took);
        report.most = report.most.max(most);
        // Large inputs would slow down all later cases.
        if seen.len() < MAX_POOL
            && input.len() < MAX_POOL_INPUT
            && answer.is_ok_and(|answer| seen.insert(answer))
            && fresh
        {
            pool_bytes += input.capacity() + 64;
            pool.push(input);
        }
    }
    report.answers = seen.len();
    report.took = begun.elapsed();
    report.growth = memory::live().saturating_sub(settled + pool_bytes);
    if report.growth > limits.growth {
        return Err(format!("{}: {} bytes leaked by the end of the run", target.name, report.growth));
    }
    Ok(report)
}

/// Runs one input of a target for a fuzzer that detects panics, hangs and leaks itself.
#[allow(clippy::panic, reason = "the fuzzer reports a panic with the input, and ends")]
pub fn run_case(name: &str, input: &[u8]) {
    // One target per process; its runtime and its engine serve every input.
    thread_local!(static TARGET: OnceCell<Target> = const { OnceCell::new() });
    TARGET.with(|target| {
        let target = target.get_or_init(|| open_target(name).unwrap_or_else(|what| panic!("{what}")));
        let before = memory::reset_peak();
        (target.run)(input);
        let most = memory::peak().saturating_sub(before);
        assert!(most <= MAX_MEMORY, "it allocated {most} bytes");
    });
}

fn open_target(name: &str) -> Result<Target, String> {
    let folder = std::env::temp_dir().join(format!("toolyard-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut all = targets::all(&folder)?.into_iter();
    all.find(|target| target.name == name).ok_or_else(|| format!("there is no target '{name}'"))
}

/// Detects a case that hangs: saves its input and aborts the process.
struct Watchdog(Arc<Mutex<Case>>);

/// The start time and input of the running case.
type Case = Option<(Instant, Vec<u8>)>;

impl Watchdog {
    fn start(file: PathBuf, limit: Duration) -> Watchdog {
        let current = Arc::<Mutex<Case>>::default();
        let seen = Arc::downgrade(&current);
        std::thread::spawn(move || {
            while let Some(current) = seen.upgrade() {
                if let Some((since, input)) = &*lock(&current)
                    && since.elapsed() > limit
                {
                    // Errors are ignored: the abort shows that a case hangs.
                    let _ = file.parent().map(std::fs::create_dir_all);
                    let _ = std::fs::write(&file, input);
                    std::process::abort();
                }
                drop(current);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Watchdog(current)
    }

    fn begin(&self, input: &[u8]) {
        let mut current = lock(&self.0);
        let (since, current_input) = current.get_or_insert_with(|| (Instant::now(), Vec::new()));
        *since = Instant::now();
        current_input.clear();
        current_input.extend_from_slice(input);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files of the folder in the order of their names.
fn read_corpus(folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let failed = |error: std::io::Error| format!("cannot read the corpus {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.sort();
    let read = files.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if read.is_empty() { Err(format!("the corpus {} is empty", folder.display())) } else { Ok(read) }
}

fn save_finding(name: &str, findings: &Path, case: u64, input: &[u8], what: &str) -> String {
    let file = findings.join(format!("{name}-{case}"));
    let saved = std::fs::create_dir_all(findings).and_then(|()| std::fs::write(&file, input));
    match saved {
        Ok(()) => format!("{name}, case {case}: {what}; its input is in {}", file.display()),
        Err(error) => format!("{name}, case {case}: {what}; its input could not be saved: {error}"),
    }
}
