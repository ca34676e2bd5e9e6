//! From what a file declares to the box its child really gets.

use crate::child::{Confinement, Level, Network};
use crate::yard::{Needs, NetworkRule};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Everything about the box that does not change from call to call.
pub struct Confining {
    pub needs: Needs,
    pub level: Level,
    pub root: PathBuf,
    pub state: PathBuf,
}

impl Confining {
    /// The box for one run of `program`.
    pub fn confinement(&self, program: &Path) -> Confinement {
        if self.level == Level::None {
            return Confinement::none();
        }
        // Collecting the parts drops a '.', so that "." is the yard itself.
        let absolute = |path: &PathBuf| self.root.join(path).components().collect::<PathBuf>();
        let mut read: BTreeSet<PathBuf> = self.needs.read.iter().map(absolute).collect();
        read.insert(self.root.clone());
        read.extend(prefixes(program));
        Confinement {
            level: self.level,
            read: read.into_iter().collect(),
            write: self.needs.write.iter().map(absolute).collect(),
            hidden: vec![self.state.clone()],
            network: match self.needs.network {
                NetworkRule::Deny => Network::Deny,
                NetworkRule::Allow => Network::Allow,
                NetworkRule::Hosts(_) => Network::Hosts,
            },
            memory: self.needs.memory,
            cpu: self.needs.cpu,
            processes: self.needs.processes,
            files: Some(1024),
            file_size: None,
            tmp_bytes: self.needs.tmp_bytes,
        }
    }
}

/// Where an interpreter lives, when that is not with the system: a version manager's folder, a virtual
/// environment, and what those lead to.
fn prefixes(program: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut next = vec![program.to_owned()];
    while let Some(program) = next.pop() {
        if is_system(&program) || found.len() > 16 {
            continue;
        }
        let Some(prefix) = prefix(&program) else { continue };
        if !found.insert(prefix.clone()) {
            continue;
        }
        // A link leads to the real interpreter; a virtual environment names the one it was made from.
        next.extend(std::fs::canonicalize(&program));
        let config = std::fs::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
        let home =
            config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"));
        next.extend(home.map(|(_, home)| Path::new(home.trim()).join("python")));
    }
    found
}

/// `<prefix>/bin/program`, else the folder the program lies in.
fn prefix(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let prefix = if folder.file_name().is_some_and(|name| name == "bin") { folder.parent()? } else { folder };
    // Never a whole home folder or the root, whatever lies directly in it.
    (prefix.components().count() > 2 && !is_home(prefix))
        .then(|| prefix.to_owned())
        .or_else(|| Some(program.to_owned()))
}

fn is_home(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent == Path::new("/home")) || path == Path::new("/root")
}

fn is_system(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib64"].iter().any(|tree| path.starts_with(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_bring_their_prefix_and_the_system_brings_itself() {
        assert!(prefixes(Path::new("/usr/bin/python3")).is_empty());
        let found = prefixes(Path::new("/home/someone/.pyenv/versions/3.12/bin/python3"));
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [PathBuf::from("/home/someone/.pyenv/versions/3.12")]
        );
        // A program directly in a home folder brings itself, not the home.
        assert_eq!(prefix(Path::new("/home/someone/tool")), Some(PathBuf::from("/home/someone/tool")));
        assert_eq!(prefix(Path::new("/root/bin/tool")), Some(PathBuf::from("/root/bin/tool")));
    }
}
