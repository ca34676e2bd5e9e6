//! Bubblewrap told to build the sandbox that we build: the same places, links, devices and private folders, the same
//! namespaces, no capabilities, a session of its own, death with its parent, and our own system call filter.
//!
//! What it cannot do and is spared: Landlock, resource limits, the small files of `/etc`, the mask over `/proc/keys`.
//! What it does each time and we do once: an empty network and ipc namespace, the view.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;

use toolyard_sandbox::{Confinement, Launcher, SandboxLevel, TreeLevel};

use super::{Failed, through_launcher};

const BUBBLEWRAP: &str = "/usr/bin/bwrap";

pub struct Bubblewrap {
    arguments: Vec<String>,
    /// Inherited by each bubblewrap, which reads it to its end.
    filter: File,
}

impl Bubblewrap {
    /// Asks a program inside our sandbox what it sees, and arranges for the same.
    pub async fn like(launcher: &Launcher) -> Result<Bubblewrap, Failed> {
        if !std::path::Path::new(BUBBLEWRAP).exists() {
            return Err(format!("{BUBBLEWRAP} is not there (Debian package bubblewrap)").into());
        }
        let mut arguments = namespaces(launcher.level());
        let mounts =
            through_launcher(launcher, SandboxLevel::Full, &["/bin/cat", "/proc/self/mountinfo"]).await?;
        let mut wanted: Vec<Vec<String>> = Vec::new();
        for mount in String::from_utf8(mounts)?.lines() {
            let argument = mount_argument(mount).ok_or("mountinfo is not as expected")?;
            // A copied view has a `/proc` below its own; bubblewrap needs one.
            if !wanted.contains(&argument) {
                wanted.push(argument);
            }
        }
        arguments.extend(wanted.into_iter().flatten());
        let find = ["/usr/bin/find", "/", "-xdev", "-type", "l", "-printf", "%l\\n%p\\n"];
        let links = String::from_utf8(through_launcher(launcher, SandboxLevel::Full, &find).await?)?;
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
    // The mount namespace comes by itself. Root's programs are in no user namespace of ours either.
    let users = (level == TreeLevel::UserPidNamespace).then_some("--unshare-user");
    let others = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"];
    let rest = ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--chdir", "/"];
    users.into_iter().chain(others).chain(rest).map(str::to_owned).collect()
}

/// One line of `/proc/self/mountinfo` as the option that brings it about; nothing for the root and for the mask.
fn mount_argument(line: &str) -> Option<Vec<String>> {
    let (place, kind) = line.split_once(" - ")?;
    let (at, kind) = (place.split(' ').nth(4)?, kind.split(' ').next()?);
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
    // SAFETY: the descriptor is new and ours alone. It is inherited, which is what it is for.
    let mut file = unsafe {
        match libc::memfd_create(c"filter".as_ptr(), 0) {
            -1 => return Err(std::io::Error::last_os_error().into()),
            fd => File::from_raw_fd(fd),
        }
    };
    file.write_all(program)?;
    Ok(file)
}
