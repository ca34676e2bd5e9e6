//! Probes, once at start, what this system supports. Every function blocks.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use toolyard_launcher::record::{self, Record};

use super::cgroup::Group;
use super::image::Image;
use super::launch_script::{self, LaunchScript, Pooled, SharedNamespaces, SystemView};
use super::spawn::SpawnArgs;
use super::start::flags;
use super::{ChildError, Command, Confinement, LauncherError, SandboxLevel, TreeLevel, fds};

/// Timeout of one probe.
const LIMIT: Duration = Duration::from_secs(5);

/// Attempts of a probe that fails for a reason that may pass.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Probes again after errors that say nothing about what the system supports, such as a lack of memory: the result
/// is used for as long as the daemon runs.
pub fn retried(mut probe: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut result = probe();
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if may_pass(error) => std::thread::sleep(PAUSE),
            _ => return result,
        }
        result = probe();
    }
    result
}

fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, StorageFull, TimedOut, UnexpectedEof, WouldBlock};
    // The error of a step of the script holds that of the kernel.
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ChildError>());
    match inner {
        Some(ChildError::Confinement { source, .. }) => may_pass(source),
        _ => {
            let kinds = [Interrupted, OutOfMemory, StorageFull, TimedOut, UnexpectedEof, WouldBlock];
            kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
        }
    }
}

/// The launcher in a memfd, or in a file in `fallback_dir` if a memfd cannot be executed.
pub fn executable_image(fallback_dir: &Path) -> Result<Image, LauncherError> {
    let memory = match Image::in_memory().and_then(|image| check_executable(&image).map(|()| image)) {
        Ok(image) => return Ok(image),
        Err(memory) => memory,
    };
    Image::in_directory(fallback_dir)
        .and_then(|image| check_executable(&image).map(|()| image))
        .map_err(|file| LauncherError::NotExecutable { directory: fallback_dir.to_owned(), memory, file })
}

/// Whether the image can be executed at all, independent of the levels.
fn check_executable(image: &Image) -> io::Result<()> {
    run_launcher(image, vec![record::FLAG_PROBE], None, Vec::new()).map(drop)
}

/// Sets up a tree at `level` with a tool that exits at once.
pub fn probe(image: &Image, level: TreeLevel) -> io::Result<()> {
    let (record, _) = run_launcher(image, vec![level.letter(), record::FLAG_PROBE], None, Vec::new())?;
    match record.stage {
        record::STAGE_RAN => Ok(()),
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

/// Sets up the sandbox for a tool that exits at once.
pub fn probe_sandbox(
    image: &Image,
    levels: &[TreeLevel],
    level: SandboxLevel,
    system: &SystemView,
) -> io::Result<()> {
    let script = LaunchScript::new(&Confinement::at(level), system, Path::new("/"), Pooled::default(), None)
        .map_err(io::Error::other)?;
    run_script(image, levels, level, script.as_ref(), system, None).map(drop)
}

/// Starts a tool that exits at once in a cgroup.
pub fn probe_cgroup(
    image: &Image,
    levels: &[TreeLevel],
    system: &SystemView,
    group: &Group,
) -> io::Result<()> {
    let script =
        LaunchScript::new(&Confinement::none(), system, Path::new("/"), Pooled::default(), Some(group))
            .map_err(io::Error::other)?;
    run_script(image, levels, SandboxLevel::None, script.as_ref(), system, Some(group)).map(drop)
}

/// Creates the view of `script` and returns its mount namespace.
pub fn create_view(
    image: &Image,
    levels: &[TreeLevel],
    script: &LaunchScript,
    system: &SystemView,
) -> io::Result<OwnedFd> {
    let namespace = run_script(image, levels, SandboxLevel::Full, Some(script), system, None)?;
    fds::above_stdio(namespace.ok_or(io::ErrorKind::InvalidData)?)
}

/// Runs a script for a tool that exits at once; returns the descriptor that the launcher sent, if any.
fn run_script(
    image: &Image,
    levels: &[TreeLevel],
    level: SandboxLevel,
    script: Option<&LaunchScript>,
    system: &SystemView,
    group: Option<&Group>,
) -> io::Result<Option<OwnedFd>> {
    let shared = system.shared(level);
    let passed = shared.map(SharedNamespaces::descriptors).unwrap_or_default();
    let passed = passed.into_iter().chain(group.into_iter().flat_map(launch_script::cgroup_descriptors));
    let flags = [flags(levels, level, script.is_some(), shared).as_bytes(), &[record::FLAG_PROBE]].concat();
    let (record, passed) = run_launcher(image, flags, script.map(LaunchScript::bytes), passed.collect())?;
    match (record.stage, script) {
        (record::STAGE_RAN, _) => Ok(passed),
        (record::STAGE_CONFINE, Some(script)) => {
            let source = io::Error::from_raw_os_error(record.errno);
            Err(io::Error::other(script.step_error(record.status, source)))
        }
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

type LauncherReply = (Record, Option<OwnedFd>);

/// Runs the launcher and waits for its record and the descriptor that may precede it.
fn run_launcher(
    image: &Image,
    flags: Vec<u8>,
    script: Option<&[u8]>,
    descriptors: Vec<(&OwnedFd, i32)>,
) -> io::Result<LauncherReply> {
    let nothing = Command {
        program: PathBuf::from("/"),
        argv: vec![OsString::from("probe")],
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        confinement: Confinement::none(),
    };
    let (ours, theirs) = fds::socket_pair()?;
    let spawn_args = SpawnArgs::new(&CString::new(flags)?, &nothing).map_err(io::Error::other)?;
    if let Some(script) = script
        && fds::write(&ours, script)? != script.len()
    {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let pid = spawn_args.spawn(&image.path, [&theirs; 4], descriptors)?;
    drop(theirs);
    let reply = receive_record(ours);
    // It exits after its reply.
    if reply.is_err() {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    reply
}

fn receive_record(socket: OwnedFd) -> io::Result<LauncherReply> {
    let socket = UnixStream::from(socket);
    socket.set_read_timeout(Some(LIMIT))?;
    let socket = OwnedFd::from(socket);
    let (mut bytes, mut passed) = (Vec::new(), None);
    while bytes.len() < record::LEN {
        let left = record::LEN - bytes.len();
        let (n, descriptor) = fds::receive(&socket, &mut bytes, left)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A read ends at a passed descriptor, so `bytes` holds nothing of the record yet.
        if descriptor.is_some() {
            passed = if bytes == [launch_script::TAG_VIEW] { descriptor } else { passed };
            bytes.clear();
        }
    }
    let record = bytes.try_into().ok().and_then(Record::from_bytes);
    record.map(|record| (record, passed)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_failure_that_may_pass_is_probed_again() {
        let mut left = vec![Ok(()), Err(io::Error::from_raw_os_error(libc::EAGAIN))];
        let step = "mount".to_owned();
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        left.push(Err(io::Error::other(ChildError::Confinement { step, source })));
        assert!(retried(|| left.pop().unwrap()).is_ok() && left.is_empty());
        for (errno, attempts) in [(libc::EPERM, 1), (libc::ENOSYS, 1), (libc::EAGAIN, ATTEMPTS)] {
            let mut made = 0;
            let failed = retried(|| {
                made += 1;
                Err(io::Error::from_raw_os_error(errno))
            });
            assert_eq!((failed.unwrap_err().raw_os_error(), made), (Some(errno), attempts));
        }
    }

    #[test]
    fn a_private_file_is_used_if_a_memfd_cannot_be_executed() {
        let directory = std::env::temp_dir().join(format!("toolyard-image-{}", std::process::id()));
        for _ in 0..2 {
            let image = Image::in_directory(&directory).unwrap();
            check_executable(&image).unwrap();
        }
        let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 1, "a second write replaces the file");
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
