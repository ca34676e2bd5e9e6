//! What a reload changed: printed for the user, and the reason to notify clients of a new tool list.

use crate::registry::{Entry, Registry, Severity, Snapshot, SourceProblem};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The difference between two snapshots, by exposed names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Same name, different digest.
    pub changed: Vec<String>,
    /// Problems that are new.
    pub problems: Vec<SourceProblem>,
    /// How many earlier problems are gone.
    pub solved: usize,
    /// Files that currently define no tool because of an error.
    pub broken: usize,
}

impl Registry {
    /// Swaps in the new snapshot and returns the differences. Running calls keep their version.
    pub fn update(&self, snapshot: Snapshot) -> Changes {
        let changes = Changes::between(&self.snapshot(), &snapshot);
        self.replace(snapshot);
        if changes.changes_listing() {
            self.listing_changed();
        }
        changes
    }
}

impl Changes {
    pub fn between(before: &Snapshot, after: &Snapshot) -> Changes {
        let known: HashMap<&str, &Entry> =
            before.entries().iter().map(|e| (e.spec.exposed.as_str(), &**e)).collect();
        let mut changes = Changes::default();
        let mut still = 0;
        for entry in after.entries() {
            let name = entry.spec.exposed.as_str();
            match known.get(name) {
                None => changes.added.push(name.to_owned()),
                Some(old) => {
                    still += 1;
                    // The same bytes under another path are another tool in the audit log.
                    if (old.spec.digest, &old.spec.name) != (entry.spec.digest, &entry.spec.name) {
                        changes.changed.push(name.to_owned());
                    }
                }
            }
        }
        if still < known.len() {
            let now: HashSet<&str> =
                after.entries().iter().map(|entry| entry.spec.exposed.as_str()).collect();
            let before = before.entries().iter().map(|entry| entry.spec.exposed.as_str());
            changes.removed = before.filter(|name| !now.contains(name)).map(str::to_owned).collect();
        }
        if before.problems() != after.problems() {
            let (old, new) = (problem_keys(before), problem_keys(after));
            let fresh = after.problems().iter().filter(|problem| !old.contains(&problem_key(problem)));
            changes.problems = fresh.cloned().collect();
            changes.solved = old.difference(&new).count();
        }
        let errors = after.problems().iter().filter(|problem| problem.severity == Severity::Error);
        changes.broken = errors.count();
        changes
    }

    /// Whether the visible tool list changed.
    pub fn changes_listing(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        !self.changes_listing() && self.problems.is_empty() && self.solved == 0
    }
}

fn problem_keys(snapshot: &Snapshot) -> HashSet<(&str, &str)> {
    snapshot.problems().iter().map(problem_key).collect()
}

fn problem_key(problem: &SourceProblem) -> (&str, &str) {
    (&problem.source, &problem.message)
}

/// `1 changed (word_count), 0 added, 0 removed, 0 problem(s)`
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (names, word) in [(&self.changed, "changed"), (&self.added, "added"), (&self.removed, "removed")]
        {
            write!(f, "{} {word}", names.len())?;
            match names.as_slice() {
                [] => {}
                few if few.len() <= 5 => write!(f, " ({})", few.join(", "))?,
                many => write!(f, " ({}, …)", many[..5].join(", "))?,
            }
            f.write_str(", ")?;
        }
        write!(f, "{} problem(s)", self.broken)
    }
}
