//! Finding out, once at start, what this system allows. Everything here blocks.

use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::image::Image;
use super::plan::{Empty, Plan, System};
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
    let record = ask(image, vec![level.letter(), record::FLAG_PROBE], None, None)?;
    match record.stage {
        record::STAGE_RAN => Ok(()),
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

/// Confines a tool that ends at once, as a real one would be.
pub fn probe_sandbox(image: &Image, levels: &[TreeLevel], level: Level, system: &System) -> io::Result<()> {
    let plan = Plan::new(&Confinement::at(level), system, Path::new("/")).map_err(io::Error::other)?;
    let shared = system.shared(level);
    let flags = [flags(levels, level, plan.is_some(), shared).as_bytes(), &[record::FLAG_PROBE]].concat();
    let record = ask(image, flags, plan.as_ref().map(Plan::bytes), shared)?;
    match (record.stage, plan) {
        (record::STAGE_RAN, _) => Ok(()),
        (record::STAGE_CONFINE, Some(plan)) => {
            let source = io::Error::from_raw_os_error(record.errno);
            Err(io::Error::other(plan.failed(record.status, source)))
        }
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

/// Runs the launcher and waits for its record.
fn ask(image: &Image, flags: Vec<u8>, plan: Option<&[u8]>, shared: Option<&Empty>) -> io::Result<Record> {
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
    let pid = prepared.spawn(&image.path, [&theirs; 4], shared)?;
    drop(theirs);
    let mut ours = UnixStream::from(ours);
    let mut bytes = [0; record::LEN];
    let answer = ours.set_read_timeout(Some(LIMIT)).and_then(|()| ours.read_exact(&mut bytes));
    // SAFETY: our own child, not reaped yet; after its answer it is ending anyway.
    unsafe {
        if answer.is_err() {
            libc::kill(pid, libc::SIGKILL);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    answer?;
    Record::from_bytes(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
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
