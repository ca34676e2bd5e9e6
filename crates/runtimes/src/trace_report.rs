//! The report of a traced run: every path and address that the tool asked for, whether the sandbox allowed it, and the
//! smallest declaration with which everything that exists would be.

use crate::declaration::Declaration;
use crate::grants::Places;
use crate::sandbox_builder::{NetworkPolicy, SandboxRequest};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use toolyard_sandbox::proxy::{HostRules, RequestedHost};
use toolyard_sandbox::{
    Confinement, Launcher, SandboxLevel, TraceEntries, TraceLog, TracedAccess, TracedPath,
};

/// More files of one folder than this are declared as the folder.
const MAX_FILES: usize = 8;

/// A request to trace the tool that this process runs, and the result.
#[derive(Default)]
pub struct TraceRequest {
    pub log: Arc<TraceLog>,
    report: Mutex<Option<TraceReport>>,
}

impl TraceRequest {
    pub fn report(&self) -> Option<TraceReport> {
        self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn finish(&self, report: TraceReport) {
        *self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(report);
    }
}

#[derive(Clone, Debug, Default)]
pub struct TraceReport {
    pub level: String,
    /// In this order: refused, allowed, not there.
    pub rows: Vec<TraceRow>,
    /// What is needed but cannot be declared.
    pub remarks: Vec<String>,
    /// The whole `sandbox` field; empty if none is needed.
    pub declaration: String,
    /// The tool's file.
    pub source: String,
    /// Not everything was recorded.
    pub is_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceRow {
    pub verdict: Verdict,
    pub access: String,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    NotShown,
    ReadOnly,
    NoNetwork,
    Allowed,
    Missing,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Verdict::NotShown => "refused: not shown",
            Verdict::ReadOnly => "refused: read-only",
            Verdict::NoNetwork => "refused: no network",
            Verdict::Allowed => "allowed",
            Verdict::Missing => "does not exist",
        }
    }
}

/// A traced run that has ended.
pub struct TracedRun<'a> {
    pub confinement: &'a Confinement,
    pub request: &'a SandboxRequest,
    pub places: &'a Places,
    pub launcher: &'a Launcher,
    pub source: &'a str,
    pub requested_hosts: Vec<RequestedHost>,
}

impl TracedRun<'_> {
    pub fn report(&self, entries: &TraceEntries) -> TraceReport {
        let mut report = TraceReport {
            level: self.confinement.level.to_string(),
            source: self.source.to_owned(),
            is_cut: entries.is_cut,
            ..TraceReport::default()
        };
        let mut needs = Needs::default();
        // A program that was found in a later folder of the search path was not missed in an earlier one.
        let started = entries.paths.iter().filter(|(_, traced)| is_started(traced));
        let started: BTreeSet<_> = started.filter_map(|(path, _)| path.file_name()).collect();
        for (path, traced) in &entries.paths {
            let is_needed =
                !path.file_name().is_some_and(|name| started.contains(name) && !traced.is_in_view)
                    && !self.launcher.shows_with_network(path);
            for access in &traced.access {
                let verdict = self.verdict(path, *access, traced);
                report.rows.push(TraceRow {
                    verdict,
                    access: word(*access),
                    what: path.display().to_string(),
                });
                if is_needed {
                    needs.add(path, *access, verdict);
                }
            }
        }
        self.network_rows(entries, &mut report, &mut needs);
        report.rows.sort();
        report.rows.dedup();
        self.declare(needs, entries, &mut report);
        report
    }

    fn verdict(&self, path: &Path, access: TracedAccess, traced: &TracedPath) -> Verdict {
        let exists = |path: &Path| std::fs::symlink_metadata(path).is_ok();
        let folder = path.parent().unwrap_or(path);
        if access == TracedAccess::Write {
            return match () {
                () if self.is_writable(path) => Verdict::Allowed,
                () if traced.is_in_view || self.is_shown(path) => Verdict::ReadOnly,
                () if exists(path) || exists(folder) => Verdict::NotShown,
                () => Verdict::Missing,
            };
        }
        match () {
            () if self.confinement.level == SandboxLevel::Landlock && !self.is_shown(path) => {
                if exists(path) { Verdict::NotShown } else { Verdict::Missing }
            }
            () if traced.is_in_view => Verdict::Allowed,
            () if exists(path) && !self.is_private(path) => Verdict::NotShown,
            () => Verdict::Missing,
        }
    }

    fn network_rows(&self, entries: &TraceEntries, report: &mut TraceReport, needs: &mut Needs) {
        let row = |verdict, what: String| TraceRow { verdict, access: "connect".to_owned(), what };
        let is_allowed = matches!(self.request.network, NetworkPolicy::Allow);
        for requested in &self.requested_hosts {
            let verdict = if requested.refusal.is_some() { Verdict::NoNetwork } else { Verdict::Allowed };
            report.rows.push(row(verdict, requested.host.clone()));
            needs.hosts.extend(requested.rule.clone());
        }
        for address in &entries.addresses {
            let is_own = address.ip().is_loopback() && !is_allowed;
            let verdict = if is_own || is_allowed { Verdict::Allowed } else { Verdict::NoNetwork };
            report.rows.push(row(verdict, address.to_string()));
            // Where names can be resolved, they are what the tool means.
            let is_meant = !is_allowed || entries.names.is_empty();
            if !address.ip().is_loopback() && address.port() != 53 && is_meant {
                needs.hosts.extend(HostRules::rule_for(&address.ip().to_string(), address.port(), false));
            }
        }
        for name in entries.names.iter().filter(|name| name.contains('.')) {
            let verdict = if is_allowed { Verdict::Allowed } else { Verdict::NoNetwork };
            report.rows.push(TraceRow { verdict, access: "resolve".to_owned(), what: name.clone() });
            needs.hosts.extend(HostRules::rule_for(name, 443, false));
        }
    }

    /// What was used of what is declared, and what is missing.
    fn declare(&self, needs: Needs, entries: &TraceEntries, report: &mut TraceReport) {
        let mut declaration = Declaration::default();
        for grant in &self.confinement.grants {
            let mut below = entries.paths.iter().filter(|(path, _)| path.starts_with(&grant.path));
            let is_written = below.clone().any(|(_, traced)| traced.access.contains(&TracedAccess::Write));
            match (below.next().is_some(), grant.writable && is_written) {
                (_, true) => declaration.write(&self.as_declared(&grant.path)),
                (true, false) if !self.places.is_inside_yard(&grant.path) => {
                    declaration.read(&self.as_declared(&grant.path));
                }
                _ => {}
            }
        }
        for (path, writable) in needs.paths() {
            match self.places.refusal(&path, writable, None) {
                Some(why) => report.remarks.push(format!("{} cannot be granted: it {why}", path.display())),
                None if writable => declaration.write(&self.as_declared(&path)),
                None => declaration.read(&self.as_declared(&path)),
            }
        }
        needs.hosts.iter().for_each(|host| declaration.host(host));
        report.declaration = declaration.lines(self.source);
    }

    /// Relative to the yard if it is inside.
    fn as_declared(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.places.root).map_or_else(|_| path.to_owned(), Path::to_owned)
    }

    fn is_writable(&self, path: &Path) -> bool {
        let mut granted = self.confinement.grants.iter().filter(|grant| grant.writable);
        granted.any(|grant| path.starts_with(&grant.path))
            || path.starts_with("/dev")
            || self.is_private(path)
    }

    fn is_private(&self, path: &Path) -> bool {
        let is_tmp = ["/tmp", "/var/tmp"].iter().any(|tmp| path.starts_with(tmp));
        self.confinement.level == SandboxLevel::Full && is_tmp && !self.is_shown(path)
    }

    fn is_shown(&self, path: &Path) -> bool {
        let granted = self.confinement.grants.iter().map(|grant| &grant.path);
        let mut shown = self.confinement.read.iter().chain(granted);
        let is_hidden = self.confinement.hidden.iter().any(|hidden| path.starts_with(hidden));
        !is_hidden && (shown.any(|shown| path.starts_with(shown)) || self.launcher.shows(path))
    }
}

fn is_started(traced: &TracedPath) -> bool {
    traced.is_in_view && traced.access.contains(&TracedAccess::Execute)
}

fn word(access: TracedAccess) -> String {
    match access {
        TracedAccess::Look => "look",
        TracedAccess::Read => "read",
        TracedAccess::Execute => "execute",
        TracedAccess::Write => "write",
    }
    .to_owned()
}

/// What was refused although it exists.
#[derive(Default)]
struct Needs {
    opened: BTreeSet<PathBuf>,
    /// Only looked at, perhaps because the look failed.
    looked_at: BTreeSet<PathBuf>,
    written: BTreeSet<PathBuf>,
    hosts: Vec<String>,
}

impl Needs {
    fn add(&mut self, path: &Path, access: TracedAccess, verdict: Verdict) {
        if !matches!(verdict, Verdict::NotShown | Verdict::ReadOnly) {
            return;
        }
        match access {
            TracedAccess::Look => self.looked_at.insert(path.to_owned()),
            TracedAccess::Read | TracedAccess::Execute => self.opened.insert(path.to_owned()),
            // The file may not exist yet.
            TracedAccess::Write => self.written.insert(path.parent().unwrap_or(path).to_owned()),
        };
    }

    /// The fewest paths that cover everything, with whether they are written.
    fn paths(&self) -> Vec<(PathBuf, bool)> {
        let mut read = self.opened.clone();
        // Of the folders on the way to something, only the last was meant.
        let is_on_the_way = |path: &PathBuf| {
            let mut others = self.looked_at.iter().chain(&self.opened).chain(&self.written);
            others.any(|other| other != path && other.starts_with(path))
        };
        read.extend(self.looked_at.iter().filter(|path| !is_on_the_way(path)).cloned());
        let folders: BTreeSet<PathBuf> =
            read.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        for folder in folders {
            if read.iter().filter(|path| path.parent() == Some(&folder)).count() > MAX_FILES {
                read.insert(folder);
            }
        }
        let is_covered =
            |path: &Path, by: &BTreeSet<PathBuf>| path.ancestors().skip(1).any(|above| by.contains(above));
        let written = self.written.iter().filter(|path| !is_covered(path, &self.written));
        let written: BTreeSet<PathBuf> = written.cloned().collect();
        let read = read.iter().filter(|path| {
            !is_covered(path, &read) && !is_covered(path, &written) && !written.contains(*path)
        });
        let read = read.map(|path| (path.clone(), false));
        read.chain(written.iter().map(|path| (path.clone(), true))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_paths_cover_everything_that_was_refused() {
        let mut needs = Needs::default();
        let mut add = |path: &str, access| needs.add(Path::new(path), access, Verdict::NotShown);
        // The folders on the way are looked at, as by `realpath`.
        for path in ["/srv", "/srv/models", "/srv/models/a"] {
            add(path, TracedAccess::Look);
        }
        add("/srv/models/a", TracedAccess::Read);
        add("/opt/listed", TracedAccess::Read);
        add("/opt/listed/x", TracedAccess::Look);
        for n in 0..MAX_FILES + 1 {
            add(&format!("/data/many/{n}"), TracedAccess::Read);
        }
        add("/yard/out/new", TracedAccess::Write);
        add("/yard/out/deep/new", TracedAccess::Write);
        add("/yard/out/old", TracedAccess::Read);
        needs.add(Path::new("/usr/x"), TracedAccess::Read, Verdict::Allowed);
        needs.add(Path::new("/none"), TracedAccess::Read, Verdict::Missing);
        let expected =
            [("/data/many", false), ("/opt/listed", false), ("/srv/models/a", false), ("/yard/out", true)];
        let expected: Vec<_> =
            expected.iter().map(|(path, writable)| (PathBuf::from(path), *writable)).collect();
        assert_eq!(needs.paths(), expected);
    }
}
