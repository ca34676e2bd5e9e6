//! Finding out, once at start, what this system allows. Everything here blocks.

use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::image::Image;
use super::record::{self, Record};
use super::spawn::Prepared;
use super::{Command, Confinement, LauncherError, TreeLevel, fds};

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
    ask(image, None).map(drop)
}

/// Sets up a tree at `level` with a tool that ends at once.
pub fn probe(image: &Image, level: TreeLevel) -> io::Result<()> {
    let record = ask(image, Some(level))?;
    match record.stage {
        record::STAGE_RAN => Ok(()),
        _ => Err(io::Error::from_raw_os_error(record.errno)),
    }
}

/// Runs the launcher and waits for its record.
fn ask(image: &Image, level: Option<TreeLevel>) -> io::Result<Record> {
    let flags = level.map(TreeLevel::letter).into_iter().chain([record::FLAG_PROBE]).collect::<Vec<_>>();
    let nothing = Command {
        program: PathBuf::from("/"),
        argv: vec![OsString::from("probe")],
        env: Vec::new(),
        cwd: PathBuf::from("/"),
        confinement: Confinement::none(),
    };
    let (ours, theirs) = fds::socket_pair()?;
    let prepared = Prepared::new(&CString::new(flags)?, &nothing).map_err(io::Error::other)?;
    let pid = prepared.spawn(&image.path, [&theirs; 4])?;
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
