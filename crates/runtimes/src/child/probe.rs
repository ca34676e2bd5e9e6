//! Finding out, once at start, what this system allows. Everything here blocks.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::image::Image;
use super::plan::{self, Empty, Plan, System};
use super::record::{self, Record};
use super::spawn::Prepared;
use super::start::flags;
use super::{Command, Confinement, LauncherError, Level, TreeLevel, fds};

/// How long one attempt may take before that way is given up.
const LIMIT: Duration = Duration::from_secs(5);

/// The launcher from memory, or from a file in `fallback_dir` where that is refused.
pub fn executable_image(fallback_dir: &Path) -> Result<Image, LauncherError> {
    let memory = match Image::in_memory().and_then(|image| starts(&image).map(|()| image)) {
        Ok(image) => return Ok(image),
        Err(memory) => memory,
    };
    Image::in_directory(fallback_dir)
        .and_then(|image| starts(&image).map(|()| image))
        .map_err(|file| LauncherError::NotExecutable { directory: fallback_dir.to_owned(), memory, file })
}

/// Whether the image can be executed at all, whatever the levels allow.
fn starts(image: &Image) -> io::Result<()> {
    ask(image, vec![record::FLAG_PROBE], None, None).map(drop)
}

/// Sets up a tree at `level` with a tool that ends at once.
pub fn probe(image: &Image, level: TreeLevel) -> io::Result<()> {
    let (record, _) = ask(image, vec![level.letter(), record::FLAG_PROBE], None, None)?;
    match record.stage {
        record::STAGE_RAN => Ok(()),
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

/// Confines a tool that ends at once, as a real one would be.
pub fn probe_sandbox(image: &Image, levels: &[TreeLevel], level: Level, system: &System) -> io::Result<()> {
    let plan = Plan::new(&Confinement::at(level), system, Path::new("/"), false).map_err(io::Error::other)?;
    carry_out(image, levels, level, plan.as_ref(), system).map(drop)
}

/// Makes the view of `plan` and gives the namespace that holds it.
pub fn make_view(image: &Image, levels: &[TreeLevel], plan: &Plan, system: &System) -> io::Result<OwnedFd> {
    let kept = carry_out(image, levels, Level::Full, Some(plan), system)?;
    fds::lifted(kept.ok_or(io::ErrorKind::InvalidData)?)
}

/// Carries a plan out for a tool that ends at once; gives what was handed over.
fn carry_out(
    image: &Image,
    levels: &[TreeLevel],
    level: Level,
    plan: Option<&Plan>,
    system: &System,
) -> io::Result<Option<OwnedFd>> {
    let shared = system.shared(level);
    let flags = [flags(levels, level, plan.is_some(), shared).as_bytes(), &[record::FLAG_PROBE]].concat();
    let (record, passed) = ask(image, flags, plan.map(Plan::bytes), shared)?;
    match (record.stage, plan) {
        (record::STAGE_RAN, _) => Ok(passed),
        (record::STAGE_CONFINE, Some(plan)) => {
            let source = io::Error::from_raw_os_error(record.errno);
            Err(io::Error::other(plan.failed(record.status, source)))
        }
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

type Answer = (Record, Option<OwnedFd>);

/// Runs the launcher and waits for its record, and for what it hands over before that.
fn ask(image: &Image, flags: Vec<u8>, plan: Option<&[u8]>, shared: Option<&Empty>) -> io::Result<Answer> {
    let nothing = Command {
        program: PathBuf::from("/"),
        argv: vec![OsString::from("probe")],
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        confinement: Confinement::none(),
    };
    let (ours, theirs) = fds::socket_pair()?;
    let prepared = Prepared::new(&CString::new(flags)?, &nothing).map_err(io::Error::other)?;
    if let Some(plan) = plan
        && fds::write(&ours, plan)? != plan.len()
    {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let namespaces = shared.map(Empty::descriptors).unwrap_or_default();
    let pid = prepared.spawn(&image.path, [&theirs; 4], namespaces)?;
    drop(theirs);
    let answer = hear(ours);
    // SAFETY: our own child, not reaped yet; after its answer it is ending anyway.
    unsafe {
        if answer.is_err() {
            libc::kill(pid, libc::SIGKILL);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    answer
}

fn hear(socket: OwnedFd) -> io::Result<Answer> {
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
        // A descriptor ends what one call reads, so nothing of the record is here yet.
        if descriptor.is_some() && bytes == [plan::KEPT] {
            passed = descriptor;
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
    fn where_memory_cannot_be_executed_a_private_file_serves() {
        let directory = std::env::temp_dir().join(format!("toolyard-image-{}", std::process::id()));
        for _ in 0..2 {
            let image = Image::in_directory(&directory).unwrap();
            starts(&image).unwrap();
        }
        let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 1, "written again, it replaces itself");
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
