//! Compares the tools of a yard: what one of them may write is not the code of another.
//!
//! In the sandbox a tool sees what others may write only if its own file declares it, so that it does not matter how its
//! code is named. The words of an entry decide for tools without a sandbox, which see everything, and for the messages.

use super::inputs::{self, Inputs};
use super::{Loaded, file_problem, warning};
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use toolyard_engine::SourceProblem;

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

/// The folders of the yard.
pub struct Folders<'a> {
    pub root: &'a Path,
    pub home: Option<&'a Path>,
}

impl Loaded {
    /// Removes tools that may write the code of a tool, which would run with the permissions of that one, and says which
    /// tools do not see what their entry names. Returns the paths of the yard that tools may write, without those inside
    /// another. Those of refused tools are among them: otherwise a tool could show what it wrote by being refused.
    pub(super) fn separate_code(&mut self, folders: &Folders<'_>) -> Vec<PathBuf> {
        let inputs: Vec<Arc<Inputs>> = self.inputs.clone();
        let uses: Vec<(&FileUse, &Inputs)> =
            inputs.iter().filter_map(|inputs| Some((inputs.file_use()?, &**inputs))).collect();
        let mut writers = Writers::default();
        for (file_use, _) in &uses {
            writers.add(file_use);
        }
        if writers.folders.is_empty() {
            return Vec::new();
        }
        for (file_use, inputs) in &uses {
            writers.compare(file_use, inputs, folders);
        }
        writers.refuse_parts(&uses);
        writers.refuse_modules();
        let Writers { refused, warnings, .. } = writers;
        self.candidates.retain(|candidate| !refused.contains_key(candidate.entry.spec.source.as_str()));
        let mut problems: Vec<SourceProblem> =
            refused.iter().map(|(source, why)| refusal(source, why)).collect();
        problems.sort_by(|a, b| a.source.cmp(&b.source));
        self.problems.extend(problems);
        self.problems.extend(warnings);
        outermost(uses.iter().flat_map(|(file_use, _)| &file_use.write), folders.root)
    }
}

/// Which tools may write which paths, and what was found about them.
#[derive(Default)]
struct Writers<'a> {
    folders: HashMap<&'a Path, Vec<&'a FileUse>>,
    /// By tool file: why it is refused.
    refused: HashMap<&'a str, String>,
    warnings: Vec<SourceProblem>,
}

impl<'a> Writers<'a> {
    fn add(&mut self, file_use: &'a FileUse) {
        for path in &file_use.write {
            self.folders.entry(path).or_default().push(file_use);
        }
    }

    /// The tools that may write the path.
    fn of(&self, path: &Path) -> Vec<&'a FileUse> {
        path.ancestors().filter_map(|above| self.folders.get(above)).flatten().copied().collect()
    }

    /// Looks for what a tool is made of in the folders that tools may write.
    fn compare(&mut self, file_use: &'a FileUse, inputs: &Inputs, folders: &Folders<'_>) {
        let mut named = named_paths(file_use, folders);
        // Names with separators are found only as a whole.
        let odd = self.folders.keys().filter(|folder| is_odd(folder, folders.root));
        named.extend(
            odd.filter(|folder| names_as_text(file_use, folder, folders.root))
                .map(|folder| folder.to_path_buf()),
        );
        let mut warned = false;
        for path in inputs.code().chain(named) {
            for writer in self.of(&path) {
                let own = writer.source == file_use.source;
                if !file_use.is_confined {
                    self.refuse(
                        writer,
                        &path,
                        &format!("{} names it and runs without a sandbox", file_use.source),
                    );
                } else if own || file_use.declares(&path) {
                    // The name alone: what the writer does to the file must change nothing.
                    if inputs::has_code_extension(&path) {
                        self.refuse(writer, &path, &format!("{} names it", file_use.source));
                    }
                } else if !std::mem::replace(&mut warned, true) {
                    self.warnings.push(not_seen(file_use, writer, &path, folders.root));
                }
            }
        }
    }

    fn refuse_parts(&mut self, uses: &[(&'a FileUse, &Inputs)]) {
        let mut shown: HashMap<&Path, &FileUse> = HashMap::new();
        for (file_use, _) in uses {
            for part in &file_use.parts {
                shown.entry(part).or_insert(file_use);
                for writer in self.of(part) {
                    self.refuse(writer, part, &format!("{} uses it", file_use.source));
                }
            }
        }
        let written: Vec<&Path> = self.folders.keys().copied().collect();
        for folder in written {
            let part = folder.ancestors().find_map(|above| shown.get(above));
            if let Some(file_use) = part {
                for writer in self.of(folder) {
                    self.refuse(writer, folder, &format!("{} uses it", file_use.source));
                }
            }
        }
    }

    /// Python imports a folder rather than the module of the same name beside it.
    fn refuse_modules(&mut self) {
        for (folder, writers) in &self.folders {
            let module = folder.with_added_extension("py");
            if module.is_file() {
                for writer in writers {
                    let (folder, module) = (folder.display(), module.display());
                    let what =
                        format!("it may write {folder}, which Python would import in place of {module}");
                    self.refused.entry(&writer.source).or_insert(what);
                }
            }
        }
    }

    fn refuse(&mut self, writer: &'a FileUse, path: &Path, why: &str) {
        let what = || format!("it may write {}, which is the code of a tool: {why}", path.display());
        self.refused.entry(&writer.source).or_insert_with(what);
    }
}

fn refusal(source: &str, why: &str) -> SourceProblem {
    let hint = Some("keep code and the folders that tools write apart".to_owned());
    SourceProblem { hint, ..file_problem(source, why.to_owned()) }
}

fn not_seen(file_use: &FileUse, writer: &FileUse, path: &Path, root: &Path) -> SourceProblem {
    let path = path.strip_prefix(root).unwrap_or(path).display();
    let what = format!(
        "its entry names {path}, which {} lets another tool write; this tool does not see it",
        writer.source
    );
    let hint = "if it is data, list it under 'sandbox.fs.read'; if it is code, move it to a folder that no tool may write";
    SourceProblem { hint: Some(hint.to_owned()), ..warning(&file_use.source, what) }
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
    let mut add = |text: &str| found.extend(place(text, folders, file_use.is_confined));
    let is_module_flag =
        |token: &str| token.starts_with('-') && !token.starts_with("--") && token.contains('m');
    let has_modules = file_use.words.iter().any(|word| tokens(word).any(|(_, token)| is_module_flag(token)));
    for word in &file_use.words {
        add(word);
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

/// The path that a text names from the yard's root. Links are followed only for tools that see where they lead.
fn place(text: &str, folders: &Folders<'_>, is_confined: bool) -> Option<PathBuf> {
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
    Some(if is_confined { plain } else { toolyard_runtimes::grants::real_path(&plain) })
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
