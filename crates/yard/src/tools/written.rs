//! Compares the tools of a yard: what one of them may write does not run as another.
//!
//! In the sandbox a tool sees what others may write only if its own file declares it, so that it does not matter how its
//! code is named. A tool without a sandbox sees everything, so it is refused if a word of its entry can name such a path.
//! All of this follows from the tool files: nothing that a tool writes changes it.

use super::inputs::Inputs;
use super::{Loaded, file_problem, warning};
use crate::kinds;
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::SourceProblem;
use toolyard_runtimes::grants;

/// Endings of files that an interpreter runs.
const CODE: [&str; 12] = ["py", "pyc", "so", "sh", "js", "mjs", "cjs", "ts", "php", "rb", "pl", "pm"];
/// Longer texts are not paths.
const MAX_PATH: usize = 4096;
/// What ends a path in a word, besides white space: quotes, and what shells and options put around names.
const SEPARATORS: &str = "'\"`=:;,()<>|&${}[]*?!\\";
/// Letters of flags that may stand before an attached value: `-I`, `-wI`, `-BmI`.
const MAX_FLAGS: usize = 3;

/// What a tool uses of the file system, as its file says it.
#[derive(Default)]
pub struct FileUse {
    pub source: String,
    pub is_confined: bool,
    /// Declared paths, absolute.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What is used wherever it lies: the program as it was found, what is shown of its installation, the schemas.
    pub parts: Vec<PathBuf>,
}

impl FileUse {
    fn declares(&self, path: &Path) -> bool {
        self.read.iter().chain(&self.write).any(|declared| path.starts_with(declared))
    }
}

/// Where the paths of words begin.
pub struct Folders<'a> {
    pub root: &'a Path,
    pub home: Option<&'a Path>,
}

impl Folders<'_> {
    fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(self.root).unwrap_or(path).display()
    }
}

impl Loaded {
    /// Removes tools that would run what another tool may write, and says which ones do not see what their entry names.
    /// Returns the paths of the yard that tools may write, without those inside another. Those of removed tools are
    /// among them: they may have been written before.
    pub(super) fn separate_code(&mut self, folders: &Folders<'_>) -> Vec<PathBuf> {
        let inputs: Vec<Arc<Inputs>> = self.inputs.clone();
        let uses: Vec<&FileUse> = inputs.iter().filter_map(|inputs| inputs.file_use()).collect();
        let writers = Writers::of(&uses);
        if writers.folders.is_empty() {
            return Vec::new();
        }
        let mut refused = HashSet::new();
        for file_use in &uses {
            let found = writers.module_beside(file_use).or_else(|| writers.conflict(file_use, folders));
            match found {
                Some(Conflict::Refused(problem)) => {
                    refused.insert(file_use.source.as_str());
                    self.problems.push(problem);
                }
                Some(Conflict::NotSeen(problem)) => self.problems.push(problem),
                None => {}
            }
        }
        self.candidates.retain(|candidate| !refused.contains(candidate.entry.spec.source.as_str()));
        outermost(uses.iter().flat_map(|file_use| &file_use.write), folders.root)
    }
}

enum Conflict {
    Refused(SourceProblem),
    /// The sandbox hides it.
    NotSeen(SourceProblem),
}

/// Which tools may write which paths.
struct Writers<'a> {
    folders: HashMap<&'a Path, &'a FileUse>,
    /// The folders above them.
    above: HashMap<&'a Path, &'a FileUse>,
}

impl<'a> Writers<'a> {
    fn of(uses: &[&'a FileUse]) -> Writers<'a> {
        let mut writers = Writers { folders: HashMap::new(), above: HashMap::new() };
        for file_use in uses {
            for path in &file_use.write {
                writers.folders.entry(path).or_insert(file_use);
                for above in path.ancestors().skip(1) {
                    writers.above.entry(above).or_insert(file_use);
                }
            }
        }
        writers
    }

    /// A tool that may write the path.
    fn writer(&self, path: &Path) -> Option<&'a FileUse> {
        path.ancestors().find_map(|above| self.folders.get(above)).copied()
    }

    /// The first thing that the tool would run or read of what tools may write.
    fn conflict(&self, file_use: &FileUse, folders: &Folders<'_>) -> Option<Conflict> {
        let of_parts = || file_use.parts.iter().find_map(|part| self.of_part(file_use, part, folders));
        match self.of_entry(file_use, folders) {
            Some(Conflict::NotSeen(problem)) => of_parts().or(Some(Conflict::NotSeen(problem))),
            found => found.or_else(of_parts),
        }
    }

    fn of_entry(&self, file_use: &FileUse, folders: &Folders<'_>) -> Option<Conflict> {
        let mut named = named_paths(file_use, folders);
        // Names with separators are found only as a whole.
        let odd = self.folders.keys().filter(|folder| is_odd(folder, folders.root));
        named.extend(
            odd.filter(|folder| names_as_text(file_use, folder, folders.root)).map(|path| path.to_path_buf()),
        );
        let mut named: Vec<PathBuf> = named.into_iter().collect();
        named.sort();
        let mut not_seen = None;
        for path in &named {
            let Some(writer) = self.writer(path) else { continue };
            let shown = folders.shown(path);
            if !file_use.is_confined {
                let what = format!(
                    "its entry names {shown}, which {} lets a tool write, and it runs without a sandbox",
                    writer.source
                );
                return Some(refused(file_use, what));
            }
            if !file_use.declares(path) {
                let what = format!(
                    "its entry names {shown}, which {} lets another tool write; this tool does not see it",
                    writer.source
                );
                let hint = "if it is data, list it under 'sandbox.fs.read'; if it is code, move it to a folder that no \
                            tool may write";
                let problem =
                    SourceProblem { hint: Some(hint.to_owned()), ..warning(&file_use.source, what) };
                not_seen.get_or_insert(Conflict::NotSeen(problem));
            } else if has_code_extension(path) {
                let what = format!("its code {shown} lies where {} lets a tool write", writer.source);
                return Some(refused(file_use, what));
            }
        }
        not_seen
    }

    /// What is used wherever it lies, also a folder of which tools may write a part.
    fn of_part(&self, file_use: &FileUse, part: &Path, folders: &Folders<'_>) -> Option<Conflict> {
        let writer = self.writer(part).or_else(|| self.above.get(part).copied())?;
        let what = format!("it uses {}, where {} lets a tool write", folders.shown(part), writer.source);
        Some(refused(file_use, what))
    }

    /// Python imports a folder rather than the module of the same name beside it, in every tool.
    fn module_beside(&self, file_use: &FileUse) -> Option<Conflict> {
        let module = |folder: &PathBuf| Some(folder.with_added_extension("py")).filter(|file| file.is_file());
        let (folder, module) = file_use.write.iter().find_map(|folder| Some((folder, module(folder)?)))?;
        let (folder, module) = (folder.display(), module.display());
        let what = format!("it may write {folder}, which Python would import in place of {module}");
        Some(refused(file_use, what))
    }
}

fn refused(file_use: &FileUse, what: String) -> Conflict {
    let hint = Some("keep code and the folders that tools write apart".to_owned());
    Conflict::Refused(SourceProblem { hint, ..file_problem(&file_use.source, what) })
}

fn has_code_extension(file: &Path) -> bool {
    let by_name = file.extension().and_then(|extension| extension.to_str());
    by_name.is_some_and(|extension| CODE.contains(&extension))
}

/// The paths of the yard that have no other one above them: a path inside another can be replaced by a link.
fn outermost<'a>(paths: impl Iterator<Item = &'a PathBuf>, root: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<&PathBuf> = paths.filter(|path| path.starts_with(root)).collect();
    paths.sort();
    paths.dedup_by(|inner, outer| inner.starts_with(&**outer));
    paths.into_iter().cloned().collect()
}

/// Every path that the words of an entry can name, absolute and without `..`. More than they really name: whether a word
/// is a path, an option or data is not known.
fn named_paths(file_use: &FileUse, folders: &Folders<'_>) -> HashSet<PathBuf> {
    let mut found = HashSet::new();
    // Where links lead matters to tools that see it. The path itself counts too: a link can be replaced.
    let follow = |path: &PathBuf| (!file_use.is_confined).then(|| grants::real_path(path));
    let mut add = |text: &str| {
        if let Some(path) = place(text, folders) {
            found.extend(follow(&path));
            found.insert(path);
        }
    };
    let is_module_flag =
        |token: &str| token.starts_with('-') && !token.starts_with("--") && token.contains('m');
    let has_modules = file_use.words.iter().any(|word| tokens(word).any(|(_, token)| is_module_flag(token)));
    for word in &file_use.words {
        add(word);
        let has_modules = has_modules || kinds::is_function(word);
        for (before, token) in tokens(word) {
            for text in readings(before, token) {
                add(text);
                if has_modules {
                    add(&text.replace('.', "/"));
                }
            }
        }
    }
    found
}

/// The parts of a word between separators, each with the character before it.
fn tokens(word: &str) -> impl Iterator<Item = (Option<char>, &str)> {
    let is_separator = |c: char| c.is_whitespace() || c.is_control() || SEPARATORS.contains(c);
    let parts = word.split(is_separator).filter(|part| !part.is_empty());
    parts.map(|part| (word[..part.as_ptr() as usize - word.as_ptr() as usize].chars().next_back(), part))
}

/// What a token may be: a path; one after a variable (`$PWD/data`) or in another working folder (`../data`); the value
/// attached to a flag (`-Idata`).
fn readings(before: Option<char>, token: &str) -> Vec<&str> {
    let mut readings = vec![token];
    if matches!(before, Some('$' | '}' | ')')) {
        readings.extend(token.split_once('/').map(|(_, rest)| rest));
    }
    if token.starts_with("../") {
        readings.push(token.trim_start_matches("../"));
    }
    if let Some(flags) = token.strip_prefix('-').filter(|flags| !flags.starts_with('-')) {
        let letters = flags.bytes().take(MAX_FLAGS).take_while(u8::is_ascii_alphanumeric).count();
        readings.extend((1..=letters).map(|at| &flags[at..]));
    }
    readings
}

/// The path that a text names from the yard's root.
fn place(text: &str, folders: &Folders<'_>) -> Option<PathBuf> {
    if text.is_empty() || text.len() > MAX_PATH {
        return None;
    }
    let path = match (text.strip_prefix("~/"), folders.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folders.root.join(text),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    Some(plain)
}

fn is_odd(folder: &Path, root: &Path) -> bool {
    let name = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
    name.contains(|c: char| c.is_whitespace() || SEPARATORS.contains(c))
}

fn names_as_text(file_use: &FileUse, folder: &Path, root: &Path) -> bool {
    let name = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
    file_use.words.iter().any(|word| word.contains(&*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> HashSet<PathBuf> {
        let words = words.iter().map(|word| word.to_string()).collect();
        let folders = Folders { root: Path::new("/yard"), home: Some(Path::new("/home/u")) };
        named_paths(&FileUse { words, is_confined: true, ..FileUse::default() }, &folders)
    }

    #[test]
    fn words_name_paths_in_every_spelling() {
        for (words, path) in [
            (&["sh", "data/x"][..], "/yard/data/x"),
            (&["sh", "./a/..//data/x"], "/yard/data/x"),
            (&["sh", "/yard/data/x"], "/yard/data/x"),
            (&["sh", "/other/data"], "/other/data"),
            (&["sh", "-c", "cd lib && . ../data/x"], "/yard/data/x"),
            (&["sh", "-c", "sh \"${ROOT}/data/x\""], "/yard/data/x"),
            (&["sh", "-c", "sh ~/x"], "/home/u/x"),
            (&["env", "A=data/x", "b"], "/yard/data/x"),
            (&["node", "--require=./data/x"], "/yard/data/x"),
            (&["node", "--import", "file:///yard/data/x"], "/yard/data/x"),
            (&["perl", "-Idata", "-Mx"], "/yard/data"),
            (&["perl", "-wIdata", "-Mx"], "/yard/data"),
            (&["python3", "-m", "data.x"], "/yard/data/x"),
            (&["python3", "-Bmdata.x"], "/yard/data/x"),
            (&["sh", "data/{{ input.x }}.sh"], "/yard/data"),
            (&["python3", "-B", "data.x:run"], "/yard/data/x"),
            (&["cat", "a file/x"], "/yard/a file/x"),
        ] {
            assert!(named(words).contains(Path::new(path)), "{words:?}: {:?}", named(words));
        }
    }

    #[test]
    fn other_names_are_not_taken_for_a_folder() {
        for words in [
            &["sh", "tools/data/x"][..],
            &["sh", "mydata/x"],
            &["x", "--metadata", "data.json"],
            &["x", "-metadata", "1"],
            &["x", "database"],
        ] {
            let found = named(words);
            assert!(!found.iter().any(|path| path.starts_with("/yard/data")), "{words:?}: {found:?}");
        }
    }

    #[test]
    fn of_nested_paths_the_outermost_counts() {
        let paths = ["/yard/a", "/yard/a-b", "/yard/a/b", "/yard/c/d", "/srv/x"].map(PathBuf::from);
        let expected = ["/yard/a", "/yard/a-b", "/yard/c/d"].map(PathBuf::from);
        assert_eq!(outermost(paths.iter(), Path::new("/yard")), expected);
    }
}
