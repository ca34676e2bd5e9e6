//! Lists the files of a root in path order, page by page; a page reads only the folders it needs.

use super::{IfMissing, Root, RootError};
use crate::resources::file_uri::{FilePath, MAX_DEPTH, check_name};
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A file as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub path: FilePath,
    pub size: u64,
}

/// Some names of a folder, sorted.
#[derive(Debug, Default)]
pub struct Names {
    pub names: Vec<(String, bool)>,
    /// There are more.
    pub truncated: bool,
    /// What is neither a file nor a folder, a few of them.
    pub skipped: Vec<String>,
}

/// Names of one folder that are held in memory; the rest comes with later pages.
const MAX_NAMES: usize = 4096;
const MAX_SKIPPED: usize = 100;
/// Entries of one folder that are read.
const MAX_SCANNED: usize = 200_000;
/// Entries that one page visits.
const MAX_WORK: usize = 20_000;

impl Root {
    /// The files after `after`, at most `limit`, and the path after which the next page continues.
    pub fn list(
        &self,
        after: Option<&FilePath>,
        limit: usize,
    ) -> Result<(Vec<FileEntry>, Option<FilePath>), RootError> {
        let folder = self.folder(&[], IfMissing::Fail)?;
        let mut page = PageBuilder { root: self, found: Vec::new(), limit, work: 0, last: None };
        let after = after.map_or(&[][..], FilePath::names);
        let is_complete = page.visit(folder.as_fd(), &mut Vec::new(), after)?;
        let next = if is_complete { None } else { page.last.and_then(|last| FilePath::new(last).ok()) };
        Ok((page.found, next))
    }

    /// The names in a folder that `wanted` accepts, each with whether it is a folder.
    pub fn names(&self, folder: BorrowedFd<'_>, wanted: impl Fn(&str) -> bool) -> Result<Names, RootError> {
        // The /proc path refers to the open folder itself, whatever its name is now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let mut least = BinaryHeap::new();
        let (mut truncated, mut skipped) = (false, Vec::new());
        for entry in std::fs::read_dir(path).map_err(RootError::of)?.take(MAX_SCANNED) {
            let entry = entry.map_err(RootError::of)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            if check_name(&name).is_err() || !wanted(&name) {
                continue;
            }
            if !kind.is_dir() && !kind.is_file() {
                skipped.extend((skipped.len() < MAX_SKIPPED).then_some(name));
                continue;
            }
            least.push((name, kind.is_dir()));
            if least.len() > MAX_NAMES {
                least.pop();
                truncated = true;
            }
        }
        Ok(Names { names: least.into_sorted_vec(), truncated, skipped })
    }
}

/// Collects one page.
struct PageBuilder<'r> {
    root: &'r Root,
    found: Vec<FileEntry>,
    limit: usize,
    work: usize,
    /// The last entry that was visited.
    last: Option<Vec<String>>,
}

impl PageBuilder<'_> {
    /// Visits the folder at `at`, starting after `after`; `false` when the page filled up before its end.
    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        at: &mut Vec<String>,
        after: &[String],
    ) -> Result<bool, RootError> {
        let first = after.first().map(String::as_str);
        let Names { names, truncated, .. } =
            self.root.names(folder, |name| first.is_none_or(|first| name >= first))?;
        for (name, is_folder) in names {
            let inner = if first == Some(name.as_str()) { &after[1..] } else { &[] };
            // The entry itself was visited for an earlier page.
            if first == Some(name.as_str()) && inner.is_empty() {
                continue;
            }
            if self.found.len() >= self.limit || self.work >= MAX_WORK {
                return Ok(false);
            }
            self.work += 1;
            at.push(name);
            let is_complete =
                if is_folder { self.visit_subfolder(folder, at, inner)? } else { self.add(folder, at) };
            if !is_complete {
                return Ok(false);
            }
            self.last = Some(at.clone());
            at.pop();
        }
        Ok(!truncated)
    }

    fn visit_subfolder(
        &mut self,
        folder: BorrowedFd<'_>,
        at: &mut Vec<String>,
        after: &[String],
    ) -> Result<bool, RootError> {
        let Some(name) = at.last().filter(|_| at.len() < MAX_DEPTH) else { return Ok(true) };
        // A folder that cannot be opened, or no longer exists, is skipped.
        let Ok(inner) = self.root.open_subfolder(folder, name, IfMissing::Fail, self.root.state()) else {
            return Ok(true);
        };
        let depth = at.len();
        let visited = self.visit(inner.as_fd(), at, after);
        at.truncate(depth);
        match visited {
            Err(RootError::Missing | RootError::Denied) => Ok(true),
            other => other,
        }
    }

    /// Files that may not be accessed are skipped.
    fn add(&mut self, folder: BorrowedFd<'_>, at: &[String]) -> bool {
        if let Some(name) = at.last()
            && let Ok(meta) = self.root.metadata_in(folder, name)
            && let Ok(path) = FilePath::new(at.to_vec())
        {
            self.found.push(FileEntry { path, size: meta.len() });
        }
        true
    }
}
