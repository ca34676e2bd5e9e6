//! Bubblewrap configured to build the same sandbox: the same mounts, links, devices and private folders, the
//! same namespaces, no capabilities, a new session, death with its parent, and our seccomp filter.
//!
//! Not compared, because it cannot do it: Landlock, resource limits, the small files of `/etc`, the mask over
//! `/proc/keys`. It creates the network and ipc namespaces and the view on each run; we create them once.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use toolyard_sandbox::{Confinement, Launcher, SandboxLevel, TreeLevel};

use super::{Failed, through_launcher};

const BUBBLEWRAP: &str = "/usr/bin/bwrap";

pub struct Bubblewrap {
    arguments: Vec<String>,
    /// Inherited by each bubblewrap process, which reads it to its end.
    filter: File,
}

impl Bubblewrap {
    /// Derives the arguments from the mounts and links that a program inside our sandbox sees.
    pub async fn like(launcher: &Launcher) -> Result<Bubblewrap, Failed> {
        if !std::path::Path::new(BUBBLEWRAP).exists() {
            return Err(format!("{BUBBLEWRAP} not found (Debian package bubblewrap)").into());
        }
        let mut arguments = namespaces(launcher.level());
        let mounts = through_launcher(
            launcher,
            &Confinement::at(SandboxLevel::Full),
            &["/bin/cat", "/proc/self/mountinfo"],
        )
        .await?;
        let mut mount_arguments: Vec<Vec<String>> = Vec::new();
        for mount in String::from_utf8(mounts)?.lines() {
            let argument = mount_argument(mount).ok_or("cannot parse mountinfo")?;
            // A copied view has two `/proc` mounts; bubblewrap needs one.
            if !mount_arguments.contains(&argument) {
                mount_arguments.push(argument);
            }
        }
        arguments.extend(mount_arguments.into_iter().flatten());
        let find = ["/usr/bin/find", "/", "-xdev", "-type", "l", "-printf", "%l\\n%p\\n"];
        let links = String::from_utf8(
            through_launcher(launcher, &Confinement::at(SandboxLevel::Full), &find).await?,
        )?;
        let links: Vec<&str> = links.lines().collect();
        for pair in links.chunks_exact(2) {
            arguments.extend(["--symlink", pair[0], pair[1]].map(str::to_owned));
        }
        let filter = filter(&launcher.filter(&Confinement::at(SandboxLevel::Full)))?;
        arguments.extend(["--seccomp".to_owned(), filter.as_raw_fd().to_string()]);
        Ok(Bubblewrap { arguments, filter })
    }

    pub fn command(&self, argv: &[&str]) -> Result<Command, Failed> {
        (&self.filter).rewind()?;
        let mut command = Command::new(BUBBLEWRAP);
        command.args(&self.arguments).arg("--").args(argv);
        Ok(command)
    }
}

fn namespaces(level: TreeLevel) -> Vec<String> {
    // Bubblewrap always creates a mount namespace. Programs of root get no user namespace from us either.
    let users = (level == TreeLevel::UserPidNamespace).then_some("--unshare-user");
    let others = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"];
    let rest = ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--chdir", "/"];
    users.into_iter().chain(others).chain(rest).map(str::to_owned).collect()
}

/// Bubblewrap's option for one line of `/proc/self/mountinfo`; empty for the root and the mask.
fn mount_argument(line: &str) -> Option<Vec<String>> {
    let (target, kind) = line.split_once(" - ")?;
    let (at, kind) = (target.split(' ').nth(4)?, kind.split(' ').next()?);
    let words: Vec<&str> = match (at, kind) {
        ("/" | "/proc/keys", _) => vec![],
        (at, "proc") => vec!["--proc", at],
        (at, "tmpfs") if at == "/tmp" => vec!["--tmpfs", at],
        (at, _) if at.starts_with("/dev/") => vec!["--dev-bind", at, at],
        (at, _) => vec!["--ro-bind", at, at],
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

fn filter(program: &[u8]) -> Result<File, Failed> {
    // Inherited on purpose.
    let mut file = File::from(memfd_create("filter", MemfdFlags::empty())?);
    file.write_all(program)?;
    Ok(file)
}
